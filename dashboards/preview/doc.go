// Package preview draws boards without Grafana: one SVG a board, from the same JSON
// that Grafana reads and from any source of PromQL. It is for a look at a board
// where no Grafana is, and for pictures in the documentation; every page says that
// it is a preview and not Grafana. It draws the kinds of panels that our boards use.
package preview

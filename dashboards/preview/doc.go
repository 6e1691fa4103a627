// Package preview draws boards without Grafana: one SVG a board, from any source of PromQL.
// It is for boards without Grafana, and for pictures in the documentation; every page is
// marked as a preview. It draws the kinds of panels that our boards use.
package preview

// Package preview draws boards without Grafana, from any source of PromQL: as a page, and as a
// picture for the documentation, which is the same HTML in an SVG. A browser lays both out. All
// are marked as a preview. It draws the kinds of panels that our boards use.
package preview

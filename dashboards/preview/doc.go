// Package preview draws boards without Grafana, from any source of PromQL: as an HTML page, and as a picture
// for the documentation, which is the same HTML inside an SVG. A browser does the layout of both. Every page
// and picture is marked as a preview. Only the kinds of panels that our boards use are supported.
package preview

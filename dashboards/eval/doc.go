// Package eval asks what a board asks and works out what Grafana would show: the
// variables filled in, the queries evaluated, rows merged and renamed, values in
// their unit and colour, and "n/a" where nothing is known. It knows the part of
// Grafana that our boards use and says so where a board uses more. Tests judge
// boards by it and the preview draws it. It never changes what it asks.
package eval

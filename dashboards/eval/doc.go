// Package eval evaluates a board as Grafana would show it: variables filled in, queries
// evaluated, rows merged and renamed, values in their unit and colour, and "n/a" for
// missing values. It has the part of Grafana that our boards use; anything else is an
// error. Tests check boards with it and the preview draws it. It only reads.
package eval

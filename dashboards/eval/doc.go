// Package eval evaluates a board as Grafana would show it: variables filled in, queries
// evaluated, rows merged, values in their unit and colour, and "n/a" for missing values.
// Tests check boards with it and the preview draws it. It only reads.
package eval

// Package eval evaluates a board as Grafana would show it: it fills in variables, evaluates queries, merges
// rows, and formats values with unit and colour, and missing values as "n/a". Tests check boards with it, and
// the preview draws its results. It only reads.
package eval

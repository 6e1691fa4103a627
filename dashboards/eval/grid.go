package eval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Grid is a table as it is shown.
type Grid struct {
	Columns []Column
	Rows    [][]Cell
}

// Column of a Grid.
type Column struct {
	Title string
	Label bool // its cells are labels, not values
	Look  Look
	// Coloured values are written in their colour; Filled cells have it as background.
	Coloured, Filled bool
}

// row is a row before it is shown: its labels, and its values by query.
type row struct {
	labels map[string]string
	values map[int]float64
}

// grid merges the answers to a table's queries into rows.
func grid(p board.Panel, answers [][]prom.Line) Grid {
	rows := merge(answers)
	columns := slices.DeleteFunc(append(slices.Clone(p.Columns), unlisted(p, rows)...), func(c board.Column) bool {
		return c.Label != "" && !slices.ContainsFunc(rows, func(r *row) bool { _, has := r.labels[c.Label]; return has })
	})
	if p.Matrix != nil {
		columns, rows = pivot(p, rows)
	}
	var g Grid
	for _, c := range columns {
		g.Columns = append(g.Columns, Column{Title: c.Title, Label: c.Label != "", Look: LookOfColumn(p, c), Coloured: c.Coloured(), Filled: p.Matrix != nil && c.Label == ""})
	}
	for _, r := range rows {
		var cells []Cell
		for i, c := range columns {
			v, has := r.values[c.Value-1]
			switch {
			case c.Label != "":
				text := r.labels[c.Label]
				cells = append(cells, Cell{Text: text, Known: text != ""})
			case has:
				cells = append(cells, g.Columns[i].Look.Show(v))
			default:
				cells = append(cells, Nothing())
			}
		}
		g.Rows = append(g.Rows, cells)
	}
	if at := slices.IndexFunc(columns, func(c board.Column) bool { return c.Sort }); at >= 0 {
		slices.SortStableFunc(g.Rows, func(a, b []Cell) int {
			if a[at].Known != b[at].Known {
				return map[bool]int{true: -1, false: 1}[a[at].Known]
			}
			return cmp.Compare(b[at].Value, a[at].Value)
		})
	}
	return g
}

// unlisted are columns of labels that a table does not list: Grafana shows them last.
func unlisted(p board.Panel, rows []*row) []board.Column {
	names := map[string]bool{}
	for _, r := range rows {
		for name := range r.labels {
			names[name] = true
		}
	}
	for _, c := range p.Columns {
		delete(names, c.Label)
	}
	var all []board.Column
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, board.Column{Label: name, Title: name})
	}
	return all
}

// merge puts values with the same labels into one row.
func merge(answers [][]prom.Line) []*row {
	var rows []*row
	byKey := map[string]*row{}
	for i, lines := range answers {
		for _, l := range lines {
			labels := l.Labels.Map()
			delete(labels, "__name__")
			key := fmt.Sprint(labels)
			r := byKey[key]
			if r == nil {
				r = &row{labels: labels, values: map[int]float64{}}
				byKey[key], rows = r, append(rows, r)
			}
			r.values[i] = l.Points[len(l.Points)-1].Value
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return strings.Compare(fmt.Sprint(a.labels), fmt.Sprint(b.labels)) })
	return rows
}

// pivot makes a column for each value of one label, and a row for each of another.
func pivot(p board.Panel, rows []*row) ([]board.Column, []*row) {
	of, names := map[string]*row{}, map[string]bool{}
	for _, r := range rows {
		names[r.labels[p.Matrix.Column]] = true
	}
	columns := []board.Column{{Label: p.Matrix.Row, Title: p.Columns[0].Title}}
	place := map[string]int{}
	for i, name := range slices.SortedFunc(maps.Keys(names), natural) {
		place[name] = i
		columns = append(columns, board.Column{Value: i + 1, Title: name})
	}
	for _, r := range rows {
		name := r.labels[p.Matrix.Row]
		if of[name] == nil {
			of[name] = &row{labels: map[string]string{p.Matrix.Row: name}, values: map[int]float64{}}
		}
		of[name].values[place[r.labels[p.Matrix.Column]]] = r.values[0]
	}
	return columns, slices.SortedFunc(maps.Values(of), func(a, b *row) int { return natural(a.labels[p.Matrix.Row], b.labels[p.Matrix.Row]) })
}

// natural orders numbers as numbers.
func natural(a, b string) int {
	x, errA := strconv.Atoi(a)
	y, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

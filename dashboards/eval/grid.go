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

// Grid is a table as shown. The cell at position i of a row belongs to column i.
type Grid struct {
	Columns []board.Column
	Rows    [][]Cell
	Matrix  bool // values have their colour as background
}

// row is a table row before formatting: its labels, and one value per query. Query numbers begin at 1.
type row struct {
	labels map[string]string
	values map[int]float64
}

// grid merges the answers to a table's queries into rows.
func grid(p board.Panel, answers [][]prom.Line) Grid {
	rows := merge(answers)
	g := Grid{Columns: columns(p, rows), Matrix: p.Matrix != nil}
	if g.Matrix {
		g.Columns, rows = pivot(p, rows)
	}
	for _, r := range rows {
		var cells []Cell
		for _, c := range g.Columns {
			switch v, has := r.values[c.Value]; {
			case c.Label != "":
				cells = append(cells, Cell{Text: cmp.Or(r.labels[c.Label], board.NA), Known: r.labels[c.Label] != ""})
			case has:
				cells = append(cells, Show(ofColumn(p, c), "", v))
			default:
				cells = append(cells, Nothing())
			}
		}
		g.Rows = append(g.Rows, cells)
	}
	by := p.Order()
	slices.Reverse(by) // the last sort decides first
	for _, c := range by {
		at := slices.IndexFunc(g.Columns, func(shown board.Column) bool { return shown.Title == c.Title })
		switch {
		case at < 0: // a label that no row has
		case c.Sort:
			slices.SortStableFunc(g.Rows, func(a, b []Cell) int { return cmp.Compare(b[at].Value, a[at].Value) }) // NaN comes last
		default:
			slices.SortStableFunc(g.Rows, func(a, b []Cell) int { return natural(a[at].Text, b[at].Text) })
		}
	}
	return g
}

// merge puts values with the same labels into one row. Rows are in the order of their labels.
func merge(answers [][]prom.Line) (rows []row) {
	all := map[string]row{}
	for i, lines := range answers {
		for _, l := range lines {
			labels := l.Labels.Map()
			delete(labels, "__name__")
			key := fmt.Sprint(labels)
			if _, there := all[key]; !there {
				all[key] = row{labels, map[int]float64{}}
			}
			all[key].values[i+1] = l.Points[len(l.Points)-1].Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, all[key])
	}
	return rows
}

// columns returns the columns of a table. Labels that no row has are left out. Labels that the table does not
// list come last, as in Grafana.
func columns(p board.Panel, rows []row) (all []board.Column) {
	labels := map[string]bool{}
	for _, r := range rows {
		for name := range r.labels {
			labels[name] = true
		}
	}
	for _, c := range p.Columns {
		if c.Label == "" || labels[c.Label] {
			all = append(all, c)
		}
		delete(labels, c.Label)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, board.Column{Label: name, Title: name})
	}
	return all
}

// pivot makes a column for each value of one label, and a row for each of another.
func pivot(p board.Panel, cells []row) ([]board.Column, []row) {
	columns, places, rows := []board.Column{{Label: p.Matrix.Row, Title: p.Columns[0].Title}}, map[string]int{}, map[string]row{}
	for _, c := range cells {
		places[c.labels[p.Matrix.Column]] = 0
		name := c.labels[p.Matrix.Row]
		rows[name] = row{map[string]string{p.Matrix.Row: name}, map[int]float64{}}
	}
	for i, name := range slices.SortedFunc(maps.Keys(places), natural) {
		places[name] = i + 1
		columns = append(columns, board.Column{Value: i + 1, Title: name})
	}
	for _, c := range cells {
		rows[c.labels[p.Matrix.Row]].values[places[c.labels[p.Matrix.Column]]] = c.values[1]
	}
	return columns, slices.SortedFunc(maps.Values(rows), func(a, b row) int { return natural(a.labels[p.Matrix.Row], b.labels[p.Matrix.Row]) })
}

// natural compares numbers as numbers and other texts as texts.
func natural(a, b string) int {
	x, errA := strconv.Atoi(a)
	y, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

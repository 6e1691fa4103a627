package eval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
)

// Grid is a table after its transformations.
type Grid struct {
	Columns []Column
	Rows    [][]Cell
}

// Column of a Grid.
type Column struct {
	Title string
	Label bool // its cells are labels, not values
	Field Field
}

// row is a row before it is shown: its labels, and its values by field name.
type row struct {
	labels map[string]string
	values map[string]float64
}

// grid merges the answers to a table's queries and applies its transformations.
func grid(p dashboard.Panel, frames [][]Line) (Grid, error) {
	rows := merge(frames)
	for _, t := range p.Transformations {
		if t.Id == "groupingToMatrix" {
			return matrix(p, rows, t.Options)
		}
	}
	var o struct {
		ExcludeByName map[string]bool   `json:"excludeByName"`
		IndexByName   map[string]int    `json:"indexByName"`
		RenameByName  map[string]string `json:"renameByName"`
	}
	for _, t := range p.Transformations {
		switch t.Id {
		case "merge":
		case "organize":
			into(t.Options, &o)
		default:
			return Grid{}, fmt.Errorf("unknown transformation: %s", t.Id)
		}
	}
	fields := map[string]bool{}
	for _, r := range rows {
		for name := range r.labels {
			fields[name] = true
		}
	}
	var g Grid
	var names []string
	for _, name := range byIndex(fields, o.IndexByName, len(frames)) {
		if o.ExcludeByName[name] {
			continue
		}
		title := cmp.Or(o.RenameByName[name], name)
		names = append(names, name)
		g.Columns = append(g.Columns, Column{Title: title, Label: !isValue(name), Field: FieldOf(p, title)})
	}
	for _, r := range rows {
		var cells []Cell
		for i, name := range names {
			cells = append(cells, r.cell(name, g.Columns[i]))
		}
		g.Rows = append(g.Rows, cells)
	}
	g.sort(p)
	return g, nil
}

func isValue(name string) bool { return name == "Value" || strings.HasPrefix(name, "Value #") }

func valueName(i, queries int) string {
	if queries == 1 {
		return "Value"
	}
	return "Value #" + string(rune('A'+i))
}

// merge puts values with the same labels into one row, in the order in which they
// first appear.
func merge(frames [][]Line) []*row {
	var rows []*row
	byKey := map[string]*row{}
	for i, lines := range frames {
		for _, l := range lines {
			labels := maps.Clone(l.Labels)
			delete(labels, "__name__")
			key := fmt.Sprint(labels)
			r := byKey[key]
			if r == nil {
				r = &row{labels: labels, values: map[string]float64{}}
				byKey[key], rows = r, append(rows, r)
			}
			r.values[valueName(i, len(frames))] = l.Points[len(l.Points)-1].Value
		}
	}
	slices.SortStableFunc(rows, func(a, b *row) int { return strings.Compare(fmt.Sprint(a.labels), fmt.Sprint(b.labels)) })
	return rows
}

// byIndex lists the fields in the given order, those without a place last.
func byIndex(labels map[string]bool, index map[string]int, queries int) []string {
	names := slices.Collect(maps.Keys(labels))
	for i := range queries {
		names = append(names, valueName(i, queries))
	}
	slices.SortFunc(names, func(a, b string) int {
		ia, oka := index[a]
		ib, okb := index[b]
		switch {
		case oka && okb:
			return cmp.Compare(ia, ib)
		case oka != okb:
			return map[bool]int{true: -1, false: 1}[oka]
		}
		return strings.Compare(a, b)
	})
	return names
}

func (r *row) cell(name string, c Column) Cell {
	if c.Label {
		text := r.labels[name]
		return Cell{Text: text, Known: text != ""}
	}
	v, ok := r.values[name]
	if !ok {
		return c.Field.Nothing()
	}
	return c.Field.Show(v)
}

// sort by the table's sort column, largest first.
func (g *Grid) sort(p dashboard.Panel) {
	o, ok := p.Options.(*table.Options)
	if !ok || len(o.SortBy) == 0 {
		return
	}
	at := slices.IndexFunc(g.Columns, func(c Column) bool { return c.Title == o.SortBy[0].DisplayName })
	if at < 0 {
		return
	}
	slices.SortStableFunc(g.Rows, func(a, b []Cell) int {
		if a[at].Known != b[at].Known {
			return map[bool]int{true: -1, false: 1}[a[at].Known]
		}
		return cmp.Compare(b[at].Value, a[at].Value)
	})
}

// matrix makes a grid of rows by two of their labels.
func matrix(p dashboard.Panel, rows []*row, options any) (Grid, error) {
	var o struct{ RowField, ColumnField, ValueField string }
	into(options, &o)
	if o.ValueField != "Value" {
		return Grid{}, fmt.Errorf("unknown matrix of %q", o.ValueField)
	}
	columns, order := map[string]bool{}, map[string]map[string]float64{}
	for _, r := range rows {
		name := r.labels[o.RowField]
		if order[name] == nil {
			order[name] = map[string]float64{}
		}
		order[name][r.labels[o.ColumnField]] = r.values["Value"]
		columns[r.labels[o.ColumnField]] = true
	}
	names := slices.SortedFunc(maps.Keys(columns), natural)
	g := Grid{Columns: []Column{{Title: corner(p, o.RowField, o.ColumnField), Label: true}}}
	for _, name := range names {
		g.Columns = append(g.Columns, Column{Title: name, Field: FieldOf(p, name)})
	}
	for _, name := range slices.SortedFunc(maps.Keys(order), natural) {
		cells := []Cell{{Text: name, Known: true}}
		for i, column := range names {
			v, ok := order[name][column]
			if !ok {
				cells = append(cells, g.Columns[i+1].Field.Nothing())
				continue
			}
			cells = append(cells, g.Columns[i+1].Field.Show(v))
		}
		g.Rows = append(g.Rows, cells)
	}
	return g, nil
}

// corner is the name of the column with the rows' names.
func corner(p dashboard.Panel, rowField, columnField string) string {
	var o struct {
		RenameByName map[string]string `json:"renameByName"`
	}
	for _, t := range p.Transformations {
		if t.Id == "organize" {
			into(t.Options, &o)
		}
	}
	name := rowField + `\` + columnField
	return cmp.Or(o.RenameByName[name], name)
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

// ColumnOf is the title of the column that a table's query fills; it is false where
// the column is left out, or where there are no columns but those of a matrix.
func ColumnOf(p dashboard.Panel, query int) (string, bool) {
	name := valueName(query, len(p.Targets))
	for _, t := range p.Transformations {
		if t.Id != "organize" {
			continue
		}
		var o struct {
			ExcludeByName map[string]bool   `json:"excludeByName"`
			RenameByName  map[string]string `json:"renameByName"`
		}
		into(t.Options, &o)
		return cmp.Or(o.RenameByName[name], name), !o.ExcludeByName[name]
	}
	return "", false
}

package board

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Tag is on every board; the links between boards are found by it.
const Tag = "gpuscale"

// NA is shown for a missing value.
const NA = "n/a"

// Board is one page.
type Board struct {
	UID   string // never changes: links of users point at it
	Title string
	About string
	Vars  []Var
	Marks []Mark
	Rows  []Row
}

// Row is a heading with panels below it. Panels are laid out from left to right; a new line begins after a
// width of 24.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its values.
type Kind string

// Kinds, by Grafana's plugin names.
const (
	Stat     Kind = "stat"
	Series   Kind = "timeseries"
	Bars     Kind = "bargauge"
	Table    Kind = "table"
	Timeline Kind = "state-timeline"
)

// Past reports whether a kind shows the past. Other kinds show now.
func (k Kind) Past() bool { return k == Series || k == Timeline }

// Unit is a unit of Grafana's.
type Unit string

// Units. Count is for whole things. Number is for values with a fraction (half a GPU) and for money in the
// currency of the price list.
const (
	Count   Unit = "none"
	Number  Unit = "short"
	Percent Unit = "percentunit" // of a ratio from 0 to 1
	Seconds Unit = "s"
	Bytes   Unit = "bytes" // powers of 1024
	Watts   Unit = "watt"
	KWh     Unit = "kwatth"
	PerSec  Unit = "ops"
	Celsius Unit = "celsius"
)

// Panel shows the answers to some queries.
type Panel struct {
	Kind    Kind
	Title   string
	About   string // what it shows
	Absent  string // the meaning of a missing value
	Unit    Unit
	Queries []Query
	W, H    int // of a grid 24 wide; 0: the kind's own

	Scale   Scale   // thresholds; neither good nor bad when empty
	Words   []Word  // values shown as words
	Hues    []Hue   // of series, by name
	Bands   []Band  // pairs of series with the area between them filled
	Stack   bool    // series on top of one another
	Steps   bool    // values hold until the next one
	Max     float64 // of the axis; 0: open
	Columns []Column
	Matrix  *Matrix
}

// Description is the panel's help text.
func (p Panel) Description() string { return p.About + "\n\n" + NA + ": " + p.Absent }

// Query is one query to Prometheus. Legend names its series and may contain {{label}}; a table has no legend.
type Query struct {
	Expr   string
	Legend string
}

// Band fills the area between two series.
type Band struct{ Low, High string }

// Column is a column of a table: a label, or the values of one of the panel's queries.
type Column struct {
	Label string // of a label column
	Expr  string // the query of its values, which With adds to the panel's
	Value int    // 1 for the first query's value; 0 for a label column
	Title string
	Unit  Unit
	Scale Scale
	Words []Word
	Link  *Link
	Sort  bool // by this column, largest first
	Width int
}

// With adds columns. Their queries come after the queries that only select rows.
func (p Panel) With(columns ...Column) Panel {
	for _, c := range columns {
		if c.Expr != "" {
			p.Queries = append(p.Queries, Query{Expr: c.Expr})
			c.Value = len(p.Queries)
		}
		p.Columns = append(p.Columns, c)
	}
	return p
}

// Order returns the columns that sort a table: first the column with Sort, then the label columns.
func (p Panel) Order() (by []Column) {
	for _, c := range p.Columns {
		switch {
		case c.Sort:
			by = slices.Insert(by, 0, c)
		case c.Label != "" || p.Matrix != nil:
			by = append(by, c)
		}
	}
	return by
}

// Missing is the colour of a missing value. In a grid it is transparent: the cell does not exist. Grey would
// mean unknown.
func (p Panel) Missing() Colour {
	if p.Matrix != nil {
		return Clear
	}
	return Muted
}

// Coloured reports whether the column's values have a colour.
func (c Column) Coloured() bool { return len(c.Scale) > 0 || len(c.Words) > 0 }

// Matrix turns a table of rows into a grid: one row for each value of a label, one
// column for each value of another.
type Matrix struct{ Row, Column string }

// Link leads to another board and keeps the time range and the variables. Set names variables that take their
// value from a label of the clicked value.
type Link struct {
	Title string
	UID   string
	Set   map[string]string // variable to label
}

// Datasource is the name of the data source's variable.
const Datasource = "datasource"

// All is the variable value that selects everything, including series without the label: with a single
// Prometheus, series have no cluster label.
const All = ".*"

// Var is a board variable: the values of a label. Users select all values or some.
type Var struct {
	Name   string
	Title  string
	About  string
	Series string // selector of the series that have the label
	Label  string
	Moved  bool // it may have been moved to exported_ by Prometheus
}

// Values is PromQL with a series for each value of the variable.
func (v Var) Values() string {
	series := v.Series
	if v.Moved {
		series = fmt.Sprintf(`label_replace(%s,%q,"$1",%q,"(.+)")`, series, v.Label, metric.Exported+v.Label)
	}
	return "group by (" + v.Label + ") (" + series + ")"
}

// Mark draws a line at each time at which an event happened.
type Mark struct {
	Name   string
	Expr   string // above 0 where it happened
	Title  string // with {{label}}
	Colour Colour
}

const gridWidth = 24

// Placed is a row's heading, or a panel, at its place on a grid 24 wide.
type Placed struct {
	Row        string
	Panel      *Panel // nil for a heading
	X, Y, W, H int
}

// Layout puts the rows under one another and the panels beside one another.
func (b Board) Layout() []Placed {
	var all []Placed
	y := 0
	for _, row := range b.Rows {
		all = append(all, Placed{Row: row.Title, Y: y, W: gridWidth, H: 1})
		y++
		x, tallest := 0, 0
		for i := range row.Panels {
			w, h := row.Panels[i].size()
			if x+w > gridWidth {
				x, y, tallest = 0, y+tallest, 0
			}
			all = append(all, Placed{Panel: &row.Panels[i], X: x, Y: y, W: w, H: h})
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	return all
}

// sizes are widths and heights of the kinds.
var sizes = map[Kind][2]int{Stat: {4, 4}, Series: {12, 8}, Bars: {8, 8}, Table: {gridWidth, 8}, Timeline: {gridWidth, 8}}

// size of a panel: its own, or its kind's.
func (p Panel) size() (w, h int) { return cmp.Or(p.W, sizes[p.Kind][0]), cmp.Or(p.H, sizes[p.Kind][1]) }

package board

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

// Row is a heading and the panels under it, laid out from left to right, a new line
// where the width of 24 is used up.
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

// Panel shows the answers to some queries.
type Panel struct {
	Kind    Kind
	Title   string
	About   string // what it shows
	Absent  string // the meaning of a missing value
	Unit    Unit
	Queries []Query
	W, H    uint32 // of a grid 24 wide; 0: the kind's own

	Scale   Scale   // thresholds; Neutral when empty
	Words   []Word  // values shown as words
	Hues    []Hue   // of series, by name
	Bands   []Band  // pairs of series with the area between them filled
	Stack   bool    // series on top of one another
	Share   bool    // stacked, as parts of 100 %
	Steps   bool    // values hold until the next one
	Max     float64 // of the axis; 0: open
	Columns []Column
	Matrix  *Matrix
}

// Query is one query to Prometheus. Legend names its series, with {{label}}; a
// table has none.
type Query struct {
	Expr   string
	Legend string
}

// Band fills the area between two series.
type Band struct{ Low, High string }

// Column is a column of a table: a label, or the value of the query with the same
// place among the queries.
type Column struct {
	Label string // of a label column
	Value int    // 1 for the first query's value; 0 for a label column
	Title string
	Unit  Unit
	Scale Scale
	Words []Word
	Link  *Link
	Sort  bool // by this column, largest first
	Width int
}

// Matrix turns a table of rows into a grid: one row for each value of a label, one
// column for each value of another.
type Matrix struct{ Row, Column string }

// Link leads to a board, with the time and the variables kept. Set are the
// variables that the value's own labels choose.
type Link struct {
	Title string
	UID   string
	Set   map[string]string // variable to label
}

// Var is a variable: the values of a label, all or some of which are looked at.
type Var struct {
	Name   string
	Title  string
	About  string
	Series string // selector of the series that have the label
	Label  string // the label; or
	Moved  bool   // it may have been moved to exported_ by Prometheus
}

// Mark draws a line at the times at which something happened.
type Mark struct {
	Name   string
	Expr   string // above 0 where it happened
	Title  string // with {{label}}
	Colour Colour
}

package render

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
)

// Table is a table of the report, for any form.
type Table struct {
	Name    string // of the CSV file and the anchor: "pools"
	Title   string
	Columns []Column
	Rows    [][]Cell
	Empty   string // shown in place of a table without rows
	Note    string // shown below one with rows
}

// Column of a table.
type Column struct {
	Name  string
	Right bool // figures stand to the right
	// Money columns are left out where there are no prices.
	Money bool
}

// Cell is a figure or a word, as text and as data.
type Cell struct {
	Text string // as text
	Raw  string // as data; empty where unknown
	Why  string // why it is unknown
}

// Section is a numbered part of the report.
type Section struct {
	Number, Anchor, Title string
	Lead                  []string // sentences before its tables
	Tables                []Table
}

func word(s string) Cell { return Cell{Text: Or(Visible(s)), Raw: Visible(s)} }

func number(n model.Number, write func(model.Number) string) Cell {
	v, ok := n.Get()
	if !ok {
		return Cell{Text: None, Why: n.Why()}
	}
	return Cell{Text: write(n), Raw: fmt.Sprintf("%.6g", v)}
}

// columns reads a heading: a name that ends in ">" stands to the right, one that
// ends in "$" does so and is money.
func columns(names ...string) []Column {
	var all []Column
	for _, n := range names {
		c := Column{Name: strings.TrimRight(n, ">$")}
		c.Money = strings.HasSuffix(n, "$")
		c.Right = c.Money || strings.HasSuffix(n, ">")
		all = append(all, c)
	}
	return all
}

// priced drops the money columns where there are no prices.
func (t Table) priced(currency string) Table {
	if currency != "" {
		for i := range t.Columns {
			if t.Columns[i].Money {
				t.Columns[i].Name += " (" + currency + ")"
			}
		}
		return t
	}
	out := Table{Name: t.Name, Title: t.Title, Empty: t.Empty}
	for _, c := range t.Columns {
		if !c.Money {
			out.Columns = append(out.Columns, c)
		}
	}
	for _, row := range t.Rows {
		var kept []Cell
		for i, c := range row {
			if !t.Columns[i].Money {
				kept = append(kept, c)
			}
		}
		out.Rows = append(out.Rows, kept)
	}
	return out
}

package render

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// Section is a numbered part of the page.
type Section struct {
	Number, Anchor, Title string
	Lead                  []string // sentences before the tables
	Tables                []Table
}

// Table is a table of the page.
type Table struct {
	Name    string
	Title   string
	From    []query.ID // queries behind the rows: no rows mean zero only if all were answered
	Columns []string   // row cells belong to the columns in this order
	Rows    [][]Cell
	Empty   string   // shown instead of a table without rows
	Notes   []string // reasons for unknown figures; cells refer to them by number
	Note    string   // shown below the rows
	More    int      // number of rows left out
}

// Cell is a figure or a text.
type Cell struct {
	Text        string
	Why         string // reason if it is unknown
	Note        int    // number of that reason below the table, from 1
	Right, Code bool
	Money       bool // the column is left out if there are no prices
	Picture     template.HTML
}

func word(s string) Cell { return Cell{Text: cmp.Or(text.Line(s), "–")} }

func number(n model.Number, write func(model.Number) string) Cell {
	return Cell{Text: write(n), Why: n.Why(), Right: true}
}

func digits(n model.Number) Cell  { return number(n, model.Digits) }
func share(n model.Number) Cell   { return number(n, model.Share) }
func seconds(n model.Number) Cell { return number(n, model.Seconds) }

func money(n model.Number) Cell {
	c := number(n, model.Money)
	c.Money = true
	return c
}

// mostRows keeps the page below 500 kB. The JSON form has all rows. The table of queries, in the last
// section, always has all rows.
const mostRows = 60

// finish adds the currency to columns of money, or removes them if there are no prices. It also numbers the
// reasons of unknown figures and limits the rows.
func (t Table) finish(r model.Report) Table {
	if n := len(t.Rows); n > mostRows && t.Name != "queries" {
		t.Rows, t.More = t.Rows[:mostRows], n-mostRows
	}
	for i := len(t.Columns) - 1; i >= 0 && len(t.Rows) > 0; i-- {
		switch {
		case !t.Rows[0][i].Money:
		case r.Currency != "":
			t.Columns[i] += " (" + r.Currency + ")"
		default:
			t.Columns = slices.Delete(t.Columns, i, i+1)
			for k := range t.Rows {
				t.Rows[k] = slices.Delete(t.Rows[k], i, i+1)
			}
		}
	}
	for _, row := range t.Rows {
		for i, c := range row {
			if c.Why == "" {
				continue
			}
			at := slices.Index(t.Notes, c.Why)
			if at < 0 {
				t.Notes, at = append(t.Notes, c.Why), len(t.Notes)
			}
			row[i].Note = at + 1
		}
	}
	switch names := t.lacking(r); {
	case names == "":
	case len(t.Rows) == 0:
		t.Empty = "Unknown: these queries were not answered in full: " + names + ". Section 0 has the reason."
	default:
		t.Note = "Incomplete: these queries were not answered in full: " + names + ". Section 0 has the reason."
	}
	return t
}

// ofLedger lists the queries behind the ledger.
var ofLedger = []query.ID{
	query.Capacity, query.Places, query.Nodes, query.Sick, query.Dark, query.Allocated, query.Measured, query.IdleAllocated, query.Busy,
}

// lacking names the queries of a table that were not answered completely.
func (t Table) lacking(r model.Report) string {
	var names []string
	for _, id := range t.From {
		if slices.Contains(r.Answer.Quality.Unanswered, string(id)) {
			names = append(names, fmt.Sprintf("%q", id))
		}
	}
	return strings.Join(names, ", ")
}

package lint

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// Problem is one violation of a rule.
type Problem struct {
	Rule  string
	Where string // board, panel
	What  string
}

func (p Problem) String() string { return p.Where + ": " + p.What + " (" + p.Rule + ")" }

// checks are mistakes of authors of boards, by name. What all boards have in common (data source, text of missing
// values, places of panels) is set once, in package board.
var checks = map[string]func(*checker){
	"identity":  identity,  // links of users hold only as long as uids and ids do
	"words":     words,     // a panel without a description is not used
	"variables": variables, // a variable without effect, or a missing one, is misleading
	"links":     links,     // a link must lead somewhere, and set what is there
	"legend":    legends,   // a series without a name of its own is ambiguous
	"query":     queries,   // a query must be PromQL over series of the catalogue, and their labels
	"counter":   counters,  // counters need rates, gauges never
	"window":    windows,   // a fixed window is wrong at another resolution
	"unit":      units,     // a value in a wrong unit is wrong by a factor
}

// check returns the problems of one of a set of boards that belong together.
func check(b board.Board, boards []board.Board) []Problem {
	c := &checker{boards: boards, board: b}
	for name, check := range checks {
		c.rule = name
		check(c)
	}
	return c.problems
}

type checker struct {
	boards   []board.Board
	board    board.Board
	rule     string
	problems []Problem
}

// report a problem of the board, or of a panel.
func (c *checker) report(p *board.Panel, format string, args ...any) {
	where := c.board.Title
	if p != nil {
		where += ", " + p.Title
	}
	c.problems = append(c.problems, Problem{Rule: c.rule, Where: where, What: fmt.Sprintf(format, args...)})
}

// panels calls f with each panel.
func (c *checker) panels(f func(p *board.Panel)) {
	for _, row := range c.board.Rows {
		for i := range row.Panels {
			f(&row.Panels[i])
		}
	}
}

// identity reads ids as Grafana does: they are made of titles, and may collide.
func identity(c *checker) {
	var written struct{ Panels []struct{ ID uint32 } }
	text, err := board.JSON(c.board)
	if err == nil {
		err = json.Unmarshal(text, &written)
	}
	if err != nil {
		c.report(nil, "%v", err)
	}
	seen := map[uint32]bool{}
	for _, p := range written.Panels {
		if p.ID == 0 || seen[p.ID] {
			c.report(nil, "id %d is missing or another panel's", p.ID)
		}
		seen[p.ID] = true
	}
	uids := 0
	for _, b := range c.boards {
		if b.UID == c.board.UID {
			uids++
		}
	}
	if uids > 1 || c.board.UID == "" {
		c.report(nil, "uid %q is none, or another board's too", c.board.UID)
	}
}

func words(c *checker) {
	if c.board.Title == "" || c.board.About == "" {
		c.report(nil, "has no title or no description")
	}
	titles := map[string]bool{}
	c.panels(func(p *board.Panel) {
		if p.Title == "" || titles[p.Title] {
			c.report(p, "its title is missing or another panel's")
		}
		titles[p.Title] = true
		if len(p.About) < 10 || len(p.Absent) < 10 {
			c.report(p, "its description does not state what it shows and what %s means", board.NA)
		}
	})
	for _, v := range c.board.Vars {
		if v.Title == "" || v.About == "" {
			c.report(nil, "variable %s has no label or no description", v.Name)
		}
	}
}

func legends(c *checker) {
	c.panels(func(p *board.Panel) {
		named := map[string]bool{}
		for i, q := range p.Queries {
			if p.Kind == board.Table {
				continue
			}
			alone := p.Kind == board.Stat && len(p.Queries) == 1
			if q.Legend == "" && !alone || named[q.Legend] {
				c.report(p, "query %d has no legend of its own", i+1)
			}
			named[q.Legend] = true
		}
	})
}

var reference = regexp.MustCompile(`\$\{?([a-zA-Z]\w*)`)

func variables(c *checker) {
	used := map[string]bool{board.Datasource: true}
	c.panels(func(p *board.Panel) {
		for _, q := range p.Queries {
			for _, m := range reference.FindAllStringSubmatch(q.Expr, -1) {
				used[m[1]] = true
				if !has(c.board, m[1]) && !strings.HasPrefix(m[1], "__") {
					c.report(p, "there is no variable %s", m[1])
				}
			}
		}
	})
	for _, name := range []string{board.Datasource, "cluster"} {
		if !has(c.board, name) {
			c.report(nil, "has no variable %s", name)
		}
	}
	c.selectors(func(p *board.Panel, v *parser.VectorSelector, _ []parser.Node) {
		if !slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "cluster" }) {
			c.report(p, "%s is queried of every cluster", v)
		}
	})
	for _, v := range c.board.Vars {
		if !used[v.Name] {
			c.report(nil, "variable %s chooses nothing in any panel", v.Name)
		}
	}
}

func has(b board.Board, name string) bool {
	return slices.ContainsFunc(b.Vars, func(v board.Var) bool { return v.Name == name })
}

// links checks the links of values: their targets, and the variables they set. Other variables are passed on unchanged.
func links(c *checker) {
	c.panels(func(p *board.Panel) {
		for _, column := range p.Columns {
			if column.Link == nil {
				continue
			}
			at := slices.IndexFunc(c.boards, func(b board.Board) bool { return b.UID == column.Link.UID })
			if at < 0 {
				c.report(p, "there is no board %s", column.Link.UID)
				continue
			}
			for name, label := range column.Link.Set {
				if !has(c.boards[at], name) {
					c.report(p, "a link sets the variable %s, which %s does not have", name, column.Link.UID)
				}
				if !slices.ContainsFunc(p.Columns, func(c board.Column) bool { return c.Label == label }) {
					c.report(p, "a link sets %s by the label %s, which has no column", name, label)
				}
			}
		}
	})
}

// fixedWindow is a range or offset written by hand, rateOver the ranges of rates.
var (
	fixedWindow = regexp.MustCompile(`\[\d|offset \d`)
	rateOver    = regexp.MustCompile(`rate\([^\[\]]*\[([^\]]*)\]`)
)

func windows(c *checker) {
	for _, m := range c.board.Marks {
		if fixedWindow.MatchString(strings.ReplaceAll(m.Expr, board.Before, "")) {
			c.report(nil, "annotation %s looks back a fixed time", m.Name)
		}
	}
	c.panels(func(p *board.Panel) {
		for i, q := range p.Queries {
			if fixedWindow.MatchString(strings.ReplaceAll(q.Expr, board.Before, "")) {
				c.report(p, "query %d looks back a fixed time", i+1)
			}
			for _, m := range rateOver.FindAllStringSubmatch(q.Expr, -1) {
				if m[1] != "$__rate_interval" {
					c.report(p, "query %d has a rate over %s", i+1, m[1])
				}
			}
		}
	})
}

package lint

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// Problem is one violation of a rule.
type Problem struct {
	Rule  string
	Where string // board, panel
	What  string
}

func (p Problem) String() string { return p.Where + ": " + p.What + " (" + p.Rule + ")" }

// Rule finds one kind of problem.
type Rule struct {
	Name  string
	Why   string
	check func(*checker)
}

// Rules returns every rule: about what authors of boards write. What all boards have alike
// (data source, text of missing values, places of panels) is set once, in package board.
func Rules() []Rule {
	return []Rule{
		{"identity", "links of users hold only as long as uids and ids do", identity},
		{"words", "a panel without a description is not used", words},
		{"variables", "a variable without effect, or a missing one, misleads", variables},
		{"links", "a link must lead somewhere, and take time and variables along", links},
		{"legend", "a series without a name of its own is ambiguous", legends},
		{"query", "a query must be PromQL over series of the catalogue, and their labels", queries},
		{"counter", "counters need rates, gauges never", counters},
		{"window", "a fixed window is wrong at another resolution", windows},
		{"unit", "a value in a wrong unit is wrong by a factor", units},
	}
}

// Check returns all problems of a set of boards that belong together.
func Check(boards ...dashboard.Dashboard) []Problem {
	c := &checker{boards: boards}
	for _, r := range Rules() {
		c.rule = r.Name
		for _, b := range boards {
			c.board = b
			r.check(c)
		}
	}
	return c.problems
}

type checker struct {
	boards   []dashboard.Dashboard
	board    dashboard.Dashboard
	rule     string
	problems []Problem
}

// report a problem of the board, or of a panel.
func (c *checker) report(p *dashboard.Panel, format string, args ...any) {
	where := deref(c.board.Title)
	if p != nil {
		where += ", " + deref(p.Title)
	}
	c.problems = append(c.problems, Problem{Rule: c.rule, Where: where, What: fmt.Sprintf(format, args...)})
}

// panels calls f with each panel.
func (c *checker) panels(f func(p *dashboard.Panel)) {
	all := eval.Panels(c.board)
	for i := range all {
		f(&all[i])
	}
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

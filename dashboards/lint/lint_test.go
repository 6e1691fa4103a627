package lint

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// No rule finds anything in our boards.
func TestLint(t *testing.T) {
	for _, b := range boards.All() {
		for _, p := range check(b, boards.All()) {
			t.Error(p)
		}
	}
}

// The series that recording rules and alerts read are in the catalogue, with their labels, and are used as their type
// requires. No rule or alert reads a recorded series.
func TestRulesAndAlerts(t *testing.T) {
	c := &checker{}
	read := func(name, expr string) {
		c.board = board.Board{Title: name, Rows: []board.Row{{Panels: []board.Panel{{Queries: []board.Query{{Expr: expr}}}}}}}
		for _, c.rule = range []string{"query", "counter"} {
			checks[c.rule](c)
		}
		c.selectors(func(p *board.Panel, v *parser.VectorSelector, _ []parser.Node) {
			if _, is := rules.Find(v.Name); is {
				c.report(p, "%s is a rule's", v)
			}
		})
	}
	for _, r := range rules.All() {
		read(r.Record, r.Expr)
	}
	for _, a := range alerts.All() {
		read(a.Name, a.Query())
	}
	for _, p := range c.problems {
		t.Error(p)
	}
}

// query gives a board's first panel, which is a figure, this query in this unit.
func query(expr string, unit board.Unit) func(*board.Board) {
	return first(board.Stat, func(p *board.Panel) { p.Queries[0].Expr, p.Unit = expr, unit })
}

// first changes a board's first panel of a kind.
func first(kind board.Kind, change func(*board.Panel)) func(*board.Board) {
	return func(b *board.Board) {
		for _, row := range b.Rows {
			if i := slices.IndexFunc(row.Panels, func(p board.Panel) bool { return p.Kind == kind }); i >= 0 {
				change(&row.Panels[i])
				return
			}
		}
	}
}

// link changes a board's first link of a value.
func link(change func(*board.Link)) func(*board.Board) {
	return func(b *board.Board) {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				if i := slices.IndexFunc(p.Columns, func(c board.Column) bool { return c.Link != nil }); i >= 0 {
					change(p.Columns[i].Link)
					return
				}
			}
		}
	}
}

// Each rule, and no other rule, finds its mistake in a board of ours.
func TestEachRuleFindsItsMistake(t *testing.T) {
	in := `{cluster=~"$cluster"}`
	cases := []struct {
		rule, name string
		change     func(*board.Board)
	}{
		{"identity", "no uid", func(b *board.Board) { b.UID = "" }},
		{"identity", "a row twice", func(b *board.Board) { b.Rows = append(b.Rows, board.Row{Title: b.Rows[0].Title}) }},
		{"words", "no title", first(board.Stat, func(p *board.Panel) { p.Title = "" })},
		{"words", "does not say what n/a means", first(board.Stat, func(p *board.Panel) { p.Absent = "" })},
		{"variables", "one that chooses nothing", func(b *board.Board) {
			b.Vars = append(b.Vars, board.Var{Name: "idle", Title: "Idle", About: "Chooses nothing.", Series: "gpu_info", Label: "node"})
		}},
		{"variables", "one that is not there", query(board.Of(metric.AutoscalerGPUs, board.In("pool", "pools")), board.Number)},
		{"links", "to no board", link(func(l *board.Link) { l.UID = "elsewhere" })},
		{"links", "sets what is not there", link(func(l *board.Link) { l.Set = map[string]string{"tenant": "node"} })},
		{"links", "by a label without a column", link(func(l *board.Link) { l.Set = map[string]string{"node": "gpu"} })},
		{"legend", "none", first(board.Series, func(p *board.Panel) { p.Queries[0].Legend = "" })},
		{"legend", "one for two", first(board.Series, func(p *board.Panel) { p.Queries = append(p.Queries, p.Queries[0]) })},
		{"query", "no PromQL", query("sum("+board.Of(metric.GPUInfo), board.Number)},
		{"query", "an unknown name", query("gpu_temperature_celsius"+in, board.Number)},
		{"query", "a label it lacks", query(board.Of(metric.GPUInfo, `pod_name="a"`), board.Number)},
		{"variables", "every cluster", query("sum(gpu_info)", board.Number)},
		{"counter", "rate of a gauge", query("rate(gpu_busy_ratio"+in+"[$__rate_interval])", board.Percent)},
		{"counter", "delta of a counter", query("delta("+board.Of(metric.GPUXIDErrorsTotal)+"[$__range])", board.Number)},
		{"counter", "a counter as it stands", query("sum("+board.Of(metric.GPUXIDErrorsTotal)+")", board.Number)},
		{"window", "a fixed one", query("increase("+board.Of(metric.GPUXIDErrorsTotal)+"[5m])", board.Number)},
		{"window", "an annotation's", func(b *board.Board) { b.Marks[0].Expr = board.Happened(board.Of(metric.AutoscalerActions), "1m") }},
		{"window", "a rate over all", query("rate("+board.Of(metric.GPUXIDErrorsTotal)+"[$__range])", board.PerSec)},
		{"unit", "seconds as bytes", query("max("+board.Of(metric.GPUIdleSeconds)+")", board.Bytes)},
		{"unit", "a thousand times the energy", query("increase("+board.Of(metric.GPUEnergyJoulesTotal)+"[$__range]) / 3.6e3", board.KWh)},
		{"unit", "a ratio as a number", query("avg("+board.Of(metric.GPUBusyRatio)+")", board.Number)},
		{"unit", "none", first(board.Stat, func(p *board.Panel) { p.Unit = "" })},
	}
	tried := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			tried[c.rule] = true
			all := boards.All()
			c.change(&all[0])
			problems := check(all[0], all)
			if len(problems) == 0 {
				t.Fatal("nothing was found")
			}
			for _, p := range problems {
				if p.Rule != c.rule {
					t.Errorf("another rule found it: %s", p)
				}
			}
		})
	}
	for name := range checks {
		if !tried[name] {
			t.Errorf("no mistake is tried with the rule %s", name)
		}
	}
}

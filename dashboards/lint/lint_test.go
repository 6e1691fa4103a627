package lint

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// good is a board without problems.
func good() board.Board {
	where := []board.Var{
		{Name: board.Datasource, Title: "Data source", About: "The Prometheus to query."},
		{Name: "cluster", Title: "Cluster", About: "The cluster.", Series: metric.GPUInfo.Name, Label: "cluster"},
		{Name: "pool", Title: "Pool", About: "The pool.", Series: metric.AutoscalerGPUs.Name, Label: "pool"},
	}
	gpus := board.Of(metric.AutoscalerGPUs, board.In("pool", "pool"))
	return board.Board{UID: "good", Title: "Good", About: "Nothing is wrong with it.", Vars: where,
		Marks: []board.Mark{{Name: "Mark", Expr: board.Happened(board.Of(metric.AutoscalerActions), board.MarkStep), Title: "{{verb}}", Colour: board.Plain}},
		Rows: []board.Row{{Title: "Row", Panels: []board.Panel{
			{Kind: board.Stat, Title: "Now", About: "All GPUs now.", Absent: "it is unknown.", Unit: board.Number, Queries: []board.Query{{Expr: board.Sum(gpus)}}},
			{Kind: board.Series, Title: "Then", About: "All GPUs back then.", Absent: "it was unknown.", Unit: board.Number,
				Queries: []board.Query{{Expr: board.Sum(gpus, "state"), Legend: "{{state}}"}, {Expr: "vector(1)", Legend: "one"}}},
			{Kind: board.Table, Title: "All", About: "GPUs by pool.", Absent: "it is unknown.", Unit: board.Number,
				Queries: []board.Query{{Expr: board.Sum(gpus, "pool")}},
				Columns: []board.Column{{Label: "pool", Title: "Pool", Link: &board.Link{Title: "Self", UID: "good", Set: map[string]string{"pool": "pool"}}}, {Value: 1, Title: "GPUs", Words: board.YesNo("one", board.Good, "none", board.Bad)}}},
		}}}}
}

// No rule finds anything in our boards, nor in the good one.
func TestLint(t *testing.T) {
	for _, p := range append(Check(boards.All()...), Check(good())...) {
		t.Error(p)
	}
}

// What recording rules and alerts read is in the catalogue, with the labels that it has, and as its
// type requires; neither reads what a rule records.
func TestRulesAndAlerts(t *testing.T) {
	c := &checker{}
	check := func(name, expr string) {
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
		check(r.Record, r.Expr)
	}
	for _, a := range alerts.All() {
		check(a.Name, a.Query())
	}
	for _, p := range c.problems {
		t.Error(p)
	}
}

// query makes a board whose first panel has this query, in this unit.
func query(expr string, unit board.Unit) func(*board.Board) {
	return func(b *board.Board) {
		p := &b.Rows[0].Panels[0]
		p.Queries[0].Expr, p.Unit = expr, unit
	}
}

// Each rule finds its mistake, and no other rule does.
func TestEachRuleFindsItsMistake(t *testing.T) {
	in := `{cluster=~"$cluster"}`
	first := func(change func(*board.Panel)) func(*board.Board) {
		return func(b *board.Board) { change(&b.Rows[0].Panels[0]) }
	}
	cases := []struct {
		rule, name string
		change     func(*board.Board)
	}{
		{"identity", "no uid", func(b *board.Board) { b.UID = ""; b.Rows[0].Panels[2].Columns[0].Link = nil }},
		{"identity", "a row twice", func(b *board.Board) { b.Rows = append(b.Rows, board.Row{Title: b.Rows[0].Title}) }},
		{"words", "no title", first(func(p *board.Panel) { p.Title = "" })},
		{"words", "does not say what n/a means", first(func(p *board.Panel) { p.Absent = "" })},
		{"variables", "one that chooses nothing", func(b *board.Board) {
			b.Vars = append(b.Vars, board.Var{Name: "idle", Title: "Idle", About: "Chooses nothing.", Series: "gpu_info", Label: "node"})
		}},
		{"variables", "one that is not there", query(board.Of(metric.AutoscalerGPUs, board.In("pool", "pools")), board.Number)},
		{"links", "to no board", func(b *board.Board) { b.Rows[0].Panels[2].Columns[0].Link.UID = "elsewhere" }},
		{"links", "sets what is not there", func(b *board.Board) { b.Rows[0].Panels[2].Columns[0].Link.Set = map[string]string{"tenant": "pool"} }},
		{"links", "by a label without a column", func(b *board.Board) { b.Rows[0].Panels[2].Columns[0].Link.Set = map[string]string{"pool": "node"} }},
		{"legend", "none", func(b *board.Board) { b.Rows[0].Panels[1].Queries[0].Legend = "" }},
		{"legend", "one for two", func(b *board.Board) { b.Rows[0].Panels[1].Queries[1].Legend = "{{state}}" }},
		{"query", "no PromQL", query("sum("+board.Of(metric.GPUInfo), board.Number)},
		{"query", "an unknown name", query("gpu_temperature_celsius"+in, board.Number)},
		{"query", "a label it lacks", query(board.Of(metric.GPUInfo, `pod_name="a"`), board.Number)},
		{"variables", "every cluster", query("sum(gpu_info)", board.Number)},
		{"counter", "rate of a gauge", query("rate(gpu_busy_ratio"+in+"[$__rate_interval])", board.Percent)},
		{"counter", "delta of a counter", query("delta("+board.Of(metric.GPUXIDErrorsTotal)+"[$__range])", board.Number)},
		{"counter", "a counter as it stands", query("sum("+board.Of(metric.GPUXIDErrorsTotal)+")", board.Number)},
		{"window", "a fixed one", query("increase("+board.Of(metric.GPUXIDErrorsTotal)+"[5m])", board.Number)},
		{"window", "a rate over all", query("rate("+board.Of(metric.GPUXIDErrorsTotal)+"[$__range])", board.PerSec)},
		{"unit", "seconds as bytes", query("max("+board.Of(metric.GPUIdleSeconds)+")", board.Bytes)},
		{"unit", "a thousand times the energy", query("increase("+board.Of(metric.GPUEnergyJoulesTotal)+"[$__range]) / 3.6e3", board.KWh)},
		{"unit", "a ratio as a number", query("avg("+board.Of(metric.GPUBusyRatio)+")", board.Number)},
		{"unit", "none", first(func(p *board.Panel) { p.Unit = "" })},
	}
	tried := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			tried[c.rule] = true
			b := good()
			c.change(&b)
			problems := Check(b)
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

package lint

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
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

func load(t *testing.T, b board.Board) dashboard.Dashboard {
	t.Helper()
	text, err := board.JSON(b)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := eval.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestGoodBoardIsGood(t *testing.T) {
	for _, p := range Check(load(t, good())) {
		t.Error(p)
	}
}

// panel of a loaded board, by its place.
func panel(d *dashboard.Dashboard, i int) *dashboard.Panel {
	at := 0
	for k := range d.Panels {
		if d.Panels[k].Panel == nil {
			continue
		}
		if at == i {
			return d.Panels[k].Panel
		}
		at++
	}
	panic("no such panel")
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
	cases := []struct {
		rule, name string
		board      func(*board.Board)
		json       func(*dashboard.Dashboard)
	}{
		{rule: "identity", name: "no uid", board: func(b *board.Board) { b.UID = ""; b.Rows[0].Panels[2].Columns[0].Link = nil }},
		{rule: "identity", name: "an id twice", json: func(d *dashboard.Dashboard) { panel(d, 0).Id = panel(d, 1).Id }},
		{rule: "words", name: "no title", json: func(d *dashboard.Dashboard) { *panel(d, 0).Title = "" }},
		{rule: "words", name: "does not say what n/a means", json: func(d *dashboard.Dashboard) { *panel(d, 0).Description = "GPUs that there are now." }},
		{rule: "variables", name: "one that chooses nothing", board: func(b *board.Board) {
			b.Vars = append(b.Vars, board.Var{Name: "idle", Title: "Idle", About: "Chooses nothing.", Series: "gpu_info", Label: "node"})
		}},
		{rule: "variables", name: "one that is not there", board: query(board.Of(metric.AutoscalerGPUs, board.In("pool", "pools")), board.Number)},
		{rule: "links", name: "to no board", board: func(b *board.Board) { b.Rows[0].Panels[2].Columns[0].Link.UID = "elsewhere" }},
		{rule: "links", name: "sets what is not there", board: func(b *board.Board) { b.Rows[0].Panels[2].Columns[0].Link.Set = map[string]string{"tenant": "pool"} }},
		{rule: "links", name: "none to the others", json: func(d *dashboard.Dashboard) { d.Links = nil }},
		{rule: "legend", name: "none", board: func(b *board.Board) { b.Rows[0].Panels[1].Queries[0].Legend = "" }},
		{rule: "legend", name: "one for two", board: func(b *board.Board) { b.Rows[0].Panels[1].Queries[1].Legend = "{{state}}" }},
		{rule: "query", name: "no PromQL", board: query("sum("+board.Of(metric.GPUInfo), board.Number)},
		{rule: "query", name: "an unknown name", board: query("gpu_temperature_celsius"+in, board.Number)},
		{rule: "query", name: "a label it lacks", board: query(board.Of(metric.GPUInfo, `pod_name="a"`), board.Number)},
		{rule: "query", name: "every cluster", board: query("sum(gpu_info)", board.Number)},
		{rule: "counter", name: "rate of a gauge", board: query("rate(gpu_busy_ratio"+in+"[$__rate_interval])", board.Percent)},
		{rule: "counter", name: "delta of a counter", board: query("delta("+board.Of(metric.GPUXIDErrorsTotal)+"[$__range])", board.Number)},
		{rule: "counter", name: "a counter as it stands", board: query("sum("+board.Of(metric.GPUXIDErrorsTotal)+")", board.Number)},
		{rule: "window", name: "a fixed one", board: query("rate("+board.Of(metric.GPUXIDErrorsTotal)+"[5m])", board.PerSec)},
		{rule: "unit", name: "seconds as bytes", board: query("max("+board.Of(metric.GPUIdleSeconds)+")", board.Bytes)},
		{rule: "unit", name: "a thousand times the energy", board: query("increase("+board.Of(metric.GPUEnergyJoulesTotal)+"[$__range]) / 3.6e3", board.KWh)},
		{rule: "unit", name: "a ratio as a number", board: query("avg("+board.Of(metric.GPUBusyRatio)+")", board.Number)},
		{rule: "unit", name: "none", json: func(d *dashboard.Dashboard) { panel(d, 0).FieldConfig.Defaults.Unit = nil }},
	}
	tried := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			tried[c.rule] = true
			b := good()
			if c.board != nil {
				c.board(&b)
			}
			d := load(t, b)
			if c.json != nil {
				c.json(&d)
			}
			problems := Check(d)
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
	for _, r := range Rules() {
		if !tried[r.Name] || r.Why == "" {
			t.Errorf("no mistake is tried with the rule %s, or it has no reason", r.Name)
		}
	}
}

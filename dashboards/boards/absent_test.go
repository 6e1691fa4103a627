package boards_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
)

// Without a family of series no query that reads it shows a value as good, by a
// threshold or a word.
func TestNothingIsWellWithoutItsSeries(t *testing.T) {
	judged, dropped := 0, 0
	for _, s := range ruled() {
		if s.Name == states.Empty {
			continue // there is nothing to drop
		}
		for _, family := range append(s.Families(), records()...) {
			readers := readersOf(t, family)
			if len(readers) == 0 {
				continue
			}
			dropped++
			without, whole := s.Without(family), s
			for _, r := range readers {
				judged++
				for _, text := range wellCells(t, r, without) {
					if !slices.Contains(wellCells(t, r, whole), text) || witnesses[r.name()] == "" {
						t.Errorf("%s: without %s, %s shows %q in the colour for good", s.Name, family, r.name(), text)
					}
				}
			}
		}
	}
	if judged < 200 || dropped < 50 {
		t.Errorf("only %d queries were checked, without %d families in turn", judged, dropped)
	}
}

// witnesses are the queries that may show good without one of the series they read, if
// they show the same with it: another series proves it.
var witnesses = map[string]string{
	"gpuscale-overview/Recording rules #3": "the group is evaluated; without this its slices are unknown",
	"gpuscale-workload/Allocations #2":     "a row of a GPU needs none of the slices' series, and the reverse",
}

// reader is a query of a panel.
type reader struct {
	board loaded
	panel dashboard.Panel
	query int
}

func (r reader) name() string {
	return fmt.Sprintf("%s/%s #%d", r.board.uid, *r.panel.Title, r.query+1)
}

// readersOf are the queries that read a family, a histogram by its parts.
func readersOf(t *testing.T, family string) []reader {
	t.Helper()
	var all []reader
	for _, b := range committed() {
		for _, p := range eval.Panels(b.d) {
			for i := range p.Targets {
				if slices.Contains(familiesOf(t, b, p, i), family) {
					all = append(all, reader{b, p, i})
				}
			}
		}
	}
	return all
}

var suffixes = []string{"", "_bucket", "_sum", "_count"}

// familiesOf are the names in a query, and what they would be parts of.
func familiesOf(t *testing.T, b loaded, p dashboard.Panel, query int) []string {
	t.Helper()
	q, _ := eval.Query(p.Targets[query])
	vars := eval.Vars{}
	for _, v := range b.d.Templating.List {
		vars[v.Name] = ".*"
	}
	text, err := eval.Fill(q.Expr, vars, eval.Window{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: time.Minute, Scrape: states.Every})
	if err != nil {
		t.Fatal(err)
	}
	expr, err := eval.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, selectors := range parser.ExtractSelectors(expr) {
		for _, m := range selectors {
			if m.Name == labels.MetricName {
				names = append(names, alternatives(m)...)
				if r, ok := rules.Find(m.Value); ok {
					names = append(names, madeOf(r)...)
				}
			}
		}
	}
	return names
}

// madeOf are the families that a rule reads.
func madeOf(r rules.Rule) []string {
	var out []string
	for _, name := range states.Reads(r) {
		for _, suffix := range suffixes {
			if whole, ok := repartition(name, suffix); ok {
				out = append(out, whole)
			}
		}
	}
	return out
}

func alternatives(m *labels.Matcher) []string {
	all := []string{m.Value}
	if m.Type == labels.MatchRegexp {
		all = m.SetMatches()
	}
	var out []string
	for _, name := range all {
		for _, suffix := range suffixes {
			if whole, ok := repartition(name, suffix); ok {
				out = append(out, whole)
			}
		}
	}
	return out
}

func repartition(name, suffix string) (string, bool) {
	if len(name) <= len(suffix) || name[len(name)-len(suffix):] != suffix {
		return "", false
	}
	return name[:len(name)-len(suffix)], true
}

// wellCells are the texts of a query's values that are shown as good.
func wellCells(t *testing.T, r reader, s states.State) []string {
	t.Helper()
	src, w := eval.Engine(s.Storage(true)), window(s)
	vars, err := eval.All(t.Context(), src, r.board.d, w)
	if err != nil {
		t.Fatal(err)
	}
	p := r.panel
	p.Targets = p.Targets[r.query : r.query+1]
	a, err := eval.Ask(t.Context(), src, p, vars, w)
	if err != nil {
		t.Fatalf("%s: %v", r.name(), err)
	}
	var texts []string
	for _, c := range cellsOf(a, r) {
		if c.Known && c.Colour == string(board.Good) {
			texts = append(texts, c.Text)
		}
	}
	return texts
}

// cellsOf are a query's values as its panel shows them: of a chart over time by the
// panel's thresholds, not by the colours that only distinguish lines.
func cellsOf(a eval.Answer, r reader) []eval.Cell {
	if a.Table == nil {
		if r.panel.Type == string(board.Series) {
			return nil
		}
		return a.Cells()
	}
	// Alone, the query's values are in the column "Value"; its looks are those of
	// the column that it fills among the others.
	title, shown := eval.ColumnOf(r.panel, r.query)
	if !shown && len(r.panel.Targets) > 1 {
		return nil
	}
	field := eval.FieldOf(r.panel, title)
	var cells []eval.Cell
	for _, row := range a.Table.Rows {
		for i, c := range row {
			if !a.Table.Columns[i].Label && c.Known {
				cells = append(cells, field.Show(c.Value))
			}
		}
	}
	return cells
}

// Every panel has something to show at some moment of some state.
func TestEveryPanelShowsSomethingSometime(t *testing.T) {
	never := map[string]string{
		"gpuscale-autoscaler/What failed": "no action fails in the recordings",
	}
	seen := map[string]bool{}
	for _, s := range ruled() {
		src := eval.Engine(s.Storage(false))
		for end := time.Minute; end <= states.Length; end += time.Minute {
			w := window(s)
			w.To = s.Start().Add(end)
			for _, b := range committed() {
				vars, err := eval.All(t.Context(), src, b.d, w)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range eval.Panels(b.d) {
					name := b.uid + "/" + *p.Title
					if seen[name] {
						continue
					}
					a, err := eval.Ask(t.Context(), src, p, vars, w)
					seen[name] = err == nil && len(a.Cells()) > 0
				}
			}
		}
	}
	for name, shown := range seen {
		if shown == (never[name] != "") {
			t.Errorf("%s shows something: %v; expected not: %q", name, shown, never[name])
		}
	}
}

package boards_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Without a family of series no query that reads it shows a value as good, by a
// threshold or a word.
func TestNothingIsWellWithoutItsSeries(t *testing.T) {
	judged, dropped, all := 0, 0, readersOf(t)
	for _, s := range ruled() {
		if s.Name == states.Empty {
			continue // there is nothing to drop
		}
		for _, family := range append(s.Families(), records()...) {
			readers := all[family]
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
	board board.Board
	panel board.Panel
	query int
}

func (r reader) name() string {
	return fmt.Sprintf("%s/%s #%d", r.board.UID, r.panel.Title, r.query+1)
}

// readersOf are the queries that read each family, a histogram by its parts.
func readersOf(t *testing.T) map[string][]reader {
	t.Helper()
	all := map[string][]reader{}
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			for i := range p.Queries {
				names := familiesOf(t, b, p, i)
				slices.Sort(names)
				for _, family := range slices.Compact(names) {
					all[family] = append(all[family], reader{b, p, i})
				}
			}
		}
	}
	return all
}

var suffixes = []string{"", "_bucket", "_sum", "_count"}

// familiesOf are the names in a query, and what they would be parts of.
func familiesOf(t *testing.T, b board.Board, p board.Panel, query int) []string {
	t.Helper()
	text, err := eval.Fill(p.Queries[query].Expr, eval.All(b), eval.Window{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: time.Minute, Scrape: states.Every})
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
			if whole, ok := strings.CutSuffix(name, suffix); ok && whole != "" {
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
			if whole, ok := strings.CutSuffix(name, suffix); ok && whole != "" {
				out = append(out, whole)
			}
		}
	}
	return out
}

// wellCells are the texts of a query's values that are shown as good.
func wellCells(t *testing.T, r reader, s states.State) []string {
	t.Helper()
	look, ok := lookOf(r)
	if !ok {
		return nil
	}
	lines, err := eval.Lines(t.Context(), eval.Engine(s.Storage(true)), r.panel, r.query, eval.All(r.board), window(s))
	if err != nil {
		t.Fatalf("%s: %v", r.name(), err)
	}
	var texts []string
	for _, l := range lines {
		if c := look(l).Show(l.Points[len(l.Points)-1].Value); c.Known && c.Colour == board.Good {
			texts = append(texts, c.Text)
		}
	}
	return texts
}

// lookOf is how a query's values are shown, if they are judged: in a chart over time colours
// only distinguish lines, and a table's query may only select rows.
func lookOf(r reader) (func(prom.Line) eval.Look, bool) {
	p := r.panel
	fixed := func(l eval.Look) func(prom.Line) eval.Look { return func(prom.Line) eval.Look { return l } }
	switch {
	case p.Kind == board.Series:
		return nil, false
	case p.Kind != board.Table:
		return func(l prom.Line) eval.Look { return eval.LookOf(p, eval.Legend(p.Queries[r.query], l.Labels)) }, true
	case p.Matrix != nil:
		return fixed(eval.LookOf(p, "")), true
	}
	for _, c := range p.Columns {
		if c.Value == r.query+1 {
			return fixed(eval.LookOfColumn(p, c)), true
		}
	}
	return nil, false
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
			for _, b := range boards.All() {
				for _, p := range panels(b) {
					name := b.UID + "/" + p.Title
					if seen[name] {
						continue
					}
					a, err := eval.Ask(t.Context(), src, p, eval.All(b), w)
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

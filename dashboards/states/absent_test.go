package states_test

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
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
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
			if slices.Contains(serving, family) {
				without = s.Without(serving[0]).Without(serving[1])
			}
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

// serving are the queues of the model servers: either of them shows that one runs.
var serving = []string{metric.VLLMWaiting.Name, metric.SGLangQueued.Escaped().Name}

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

// readersOf are the queries that read each family.
func readersOf(t *testing.T) map[string][]reader {
	t.Helper()
	all := map[string][]reader{}
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			for i := range p.Queries {
				for _, family := range familiesOf(t, b, p, i) {
					all[family] = append(all[family], reader{b, p, i})
				}
			}
		}
	}
	return all
}

// familiesOf are the families that a panel's query reads, sorted.
func familiesOf(t *testing.T, b board.Board, p board.Panel, query int) []string {
	t.Helper()
	text, err := eval.Fill(p.Queries[query].Expr, eval.All(b), eval.Window{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: time.Minute, Scrape: states.Every})
	require.NoError(t, err)
	return families(t, text)
}

// families are those of the names in an expression: what each would be a part of, as a
// histogram is, and of a rule's name what the rule reads.
func families(t *testing.T, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err)
	var all []string
	for _, m := range slices.Concat(parser.ExtractSelectors(expr)...) {
		if m.Name != labels.MetricName {
			continue
		}
		names := []string{m.Value}
		if m.Type == labels.MatchRegexp {
			names = m.SetMatches()
		}
		for _, name := range names {
			if r, ok := rules.Find(name); ok {
				all = append(all, families(t, r.Expr)...)
			}
			for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
				if whole, ok := strings.CutSuffix(name, suffix); ok && whole != "" {
					all = append(all, whole)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wellCells are the texts of a query's values that are shown as good.
func wellCells(t *testing.T, r reader, s states.State) []string {
	t.Helper()
	look, ok := lookOf(r)
	if !ok {
		return nil
	}
	lines, err := eval.Lines(t.Context(), memstore.Over(s.Storage(true)), r.panel, r.query, eval.All(r.board), window(s))
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

// records are the names that the rules record.
func records() []string {
	var all []string
	for _, r := range rules.All() {
		all = append(all, r.Record)
	}
	return all
}

func isRecord(name string) bool { return strings.Count(name, ":") == 2 }

// readsRules reports whether a panel reads recording rules.
func readsRules(t *testing.T, b board.Board, p board.Panel) (names []string) {
	t.Helper()
	for i := range p.Queries {
		names = append(names, slices.DeleteFunc(familiesOf(t, b, p, i), func(name string) bool { return !isRecord(name) })...)
	}
	return names
}

// Every rule is read by a board, every group that is read has a tile, which shows whether it is
// loaded, and Overview, which is for the exporter alone, reads none in other panels.
func TestRulesOfBoards(t *testing.T) {
	group := map[string]string{}
	for _, g := range rules.Groups() {
		for _, r := range g.Rules {
			group[r.Record] = g.Name
		}
	}
	read, tiled := map[string]bool{}, map[string]bool{}
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			for _, name := range readsRules(t, b, p) {
				if read[name] = true; p.Title == "Recording rules" {
					tiled[group[name]] = true
				} else if b.UID == boards.OverviewUID {
					t.Errorf("%s/%s reads %s: where the exporter alone is installed there are no rules", b.UID, p.Title, name)
				}
			}
		}
	}
	for _, name := range records() {
		if !read[name] {
			t.Errorf("no board reads %s: Prometheus would record it for nothing", name)
		}
		if !tiled[group[name]] {
			t.Errorf("no tile shows whether the rules of %s are loaded, of which %s is read", group[name], name)
		}
	}
}

// Where the rules are not loaded their tiles show it, and their readers show nothing in the
// colour for good, and state that the rules may be missing.
func TestWithoutTheRules(t *testing.T) {
	for _, s := range states.All() {
		src, w := memstore.Over(s.Storage(false)), window(s)
		for _, b := range boards.All() {
			for _, p := range panels(b) {
				if len(readsRules(t, b, p)) == 0 {
					continue
				}
				a, err := eval.Ask(t.Context(), src, p, eval.All(b), w)
				require.NoError(t, err)
				checkWithoutRules(t, b.UID+"/"+p.Title, p.Description(), cells(a))
			}
		}
	}
}

func checkWithoutRules(t *testing.T, name, about string, cells []eval.Cell) {
	t.Helper()
	if strings.HasSuffix(name, "/Recording rules") {
		for _, c := range cells {
			if c.Text != "missing" || c.Colour != board.Watch {
				t.Errorf("without the rules %s shows %+v", name, c)
			}
		}
		if len(cells) < 2 {
			t.Errorf("%s shows %d values of the rules", name, len(cells))
		}
		return
	}
	if !strings.Contains(about, "rules are not loaded") {
		t.Errorf("%s does not state that the rules may be missing", name)
	}
	for _, c := range cells {
		if c.Known && c.Colour == board.Good {
			t.Errorf("%s: %q in the colour for good without the rules", name, c.Text)
		}
	}
}

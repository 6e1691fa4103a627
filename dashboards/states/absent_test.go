package states

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Without a family of series, no query that reads it shows a value as good, by a threshold or a word.
func TestNothingIsWellWithoutItsSeries(t *testing.T) {
	judged, dropped, all := 0, 0, readersOf(t)
	for _, s := range withRules() {
		if s.Name == Empty {
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

// serving are the queues of the model servers: each of them shows that a server runs.
var serving = []string{metric.VLLMWaiting.Name, metric.Escape(metric.SGLangQueued.Name)}

// witnesses are the queries that may show good without one of the series that they read, if they show the same with it:
// another series proves that it is good.
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
				for _, family := range familiesOf(t, b, p.Queries[i]) {
					all[family] = append(all[family], reader{b, p, i})
				}
			}
		}
	}
	return all
}

// reads are the series that a query reads, rules by their own names.
func reads(t *testing.T, b board.Board, q board.Query) []string {
	t.Helper()
	text, err := eval.Fill(q.Expr, b, eval.Window{From: begin, To: begin.Add(Length), Step: time.Minute, Scrape: Every})
	require.NoError(t, err)
	return namesIn(text)
}

// familiesOf are the families that a query reads: for each name the family that it would be a part of, such as a
// histogram, and for a rule's name the families that the rule reads.
func familiesOf(t *testing.T, b board.Board, q board.Query) []string {
	t.Helper()
	var all []string
	for names := reads(t, b, q); len(names) > 0; names = names[1:] {
		if r, ok := rules.Find(names[0]); ok {
			names = append(names, namesIn(r.Expr)...)
		}
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if whole, ok := strings.CutSuffix(names[0], suffix); ok && whole != "" {
				all = append(all, whole)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wellCells are the texts of a query's values that are shown as good. In a chart over time
// colours only distinguish lines, and a table's query may only select rows.
func wellCells(t *testing.T, r reader, s State) (texts []string) {
	t.Helper()
	p := r.panel
	if p.Kind == board.Series {
		return nil
	}
	p.Queries, p.Columns = p.Queries[r.query:r.query+1], nil
	for _, c := range r.panel.Columns {
		if c.Value == 0 || c.Value == r.query+1 {
			c.Value = min(c.Value, 1)
			p.Columns = append(p.Columns, c)
		}
	}
	a, err := eval.Ask(t.Context(), memstore.Over(s.Storage(true)), r.board, p, window(s))
	require.NoError(t, err)
	for _, c := range cells(a) {
		if c.Known && c.Colour == board.Good {
			texts = append(texts, c.Text)
		}
	}
	return texts
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

func readsOf(t *testing.T, b board.Board, p board.Panel) (names []string) {
	t.Helper()
	for _, q := range p.Queries {
		names = append(names, reads(t, b, q)...)
	}
	return names
}

// Every rule is read by a board, and by panels that state it. Every group that a board reads has a tile, which shows
// whether it is loaded. Overview, which is for the exporter alone, reads no group in other panels.
func TestRulesOfBoards(t *testing.T) {
	group := map[string]string{}
	for _, g := range rules.Groups() {
		for _, r := range g.Rules {
			group[r.Record] = g.Name
		}
	}
	read, tiled, without := map[string]bool{}, map[string]bool{}, find(t, MIG)
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			if p.Title == "Recording rules" {
				a, err := eval.Ask(t.Context(), memstore.Over(without.Storage(false)), b, p, window(without))
				if shown := cells(a); err != nil || len(shown) < 2 || slices.ContainsFunc(shown, func(c eval.Cell) bool { return c.Text != "missing" || c.Colour != board.Watch }) {
					t.Errorf("without the rules %s/%s shows %+v, %v", b.UID, p.Title, shown, err)
				}
			}
			for _, name := range readsOf(t, b, p) {
				if read[name] = true; !isRecord(name) {
					continue
				}
				if p.Title == "Recording rules" {
					tiled[group[name]] = true
				} else if b.UID == boards.OverviewUID {
					t.Errorf("%s/%s reads %s: where the exporter alone is installed there are no rules", b.UID, p.Title, name)
				} else if !strings.Contains(p.Description(), "has not loaded the recording rules") {
					t.Errorf("%s/%s does not state that the rules may be missing", b.UID, p.Title)
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

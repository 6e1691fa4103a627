package states_test

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
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/hostile"
)

// TestNoPageChangesRecordedSums: panels that read recording rules alone show the same whatever series a
// tenant's pages have, those of the rules' names included.
func TestNoPageChangesRecordedSums(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording a state takes seconds")
	}
	s, _ := states.Find(states.XID)
	s = s.WithRules()
	src := s.Storage(true)
	w, err := hostile.Look(src, s.Start(), s.End())
	require.NoError(t, err)
	window := eval.Window{From: s.End().Add(-5 * time.Minute), To: s.End(), Step: time.Minute, Scrape: states.Every}
	shown := func(src eval.Source) map[string]string {
		out := map[string]string{}
		for _, b := range boards.All() {
			for _, row := range b.Rows {
				for _, p := range row.Panels {
					if !slices.ContainsFunc(p.Queries, func(q board.Query) bool { return !readsRulesAlone(q.Expr) }) {
						a, err := eval.Ask(t.Context(), src, p, eval.All(b), window)
						out[b.UID+"/"+p.Title] = fmt.Sprint(a.Series, cells(a), err)
					}
				}
			}
		}
		return out
	}
	want := shown(memstore.Over(src))
	if len(want) < 4 {
		t.Errorf("only the panels %v read rules alone", want)
	}
	all := attacks(4)
	if !testall.Enabled() {
		all = all[:1]
	}
	for _, a := range all {
		for panel, got := range shown(memstore.Over(w.Attacked(a))) {
			if got != want[panel] {
				t.Errorf("%s: %s: %s", a.Name, panel, difference(want[panel], got))
			}
		}
	}
}

// readsRulesAlone reports whether a panel's query reads the series of our recording rules, and of no
// program.
func readsRulesAlone(expr string) bool {
	found := false
	for _, f := range hostile.Families() {
		if strings.Contains(expr, f.Name+"{") || strings.Contains(expr, f.Name+"_bucket{") {
			if !slices.ContainsFunc(rules.All(), func(r rules.Rule) bool { return r.Record == f.Name }) {
				return false
			}
			found = true
		}
	}
	return found
}

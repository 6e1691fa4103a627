package states_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// window is that of a board opened at the end of the recording.
func window(s states.State) eval.Window {
	return eval.Window{From: s.Start(), To: s.End(), Step: 30 * time.Second, Scrape: states.Every}
}

// ruled are the states with the series of our recording rules.
func ruled() []states.State {
	all := states.All()
	for i := range all {
		all[i] = all[i].WithRules()
	}
	return all
}

// neverShown are the panels that show nothing at any moment of any state.
var neverShown = map[string]string{
	"gpuscale-autoscaler/What failed": "no action fails in the recordings",
}

// Every query of every panel, variable and annotation is answered in every state and
// both ways: without an error, without NaN, without two series of one name, and not
// empty unless the table has a reason. Every panel shows something at some moment.
func TestEveryPanelInEveryState(t *testing.T) {
	used, shown := map[string]bool{}, map[string]bool{}
	for _, s := range ruled() {
		for _, honor := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/honor_labels=%v", s.Name, honor), func(t *testing.T) {
				src, w := memstore.Over(s.Storage(honor)), window(s)
				for _, b := range boards.All() {
					checkBoard(t, src, b, w, s.Name, used, shown)
				}
			})
		}
	}
	for key := range mayBeEmpty(t) {
		if !used[key] {
			t.Errorf("mayBeEmpty has %s, which is never empty, or no panel", key)
		}
	}
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			name := b.UID + "/" + p.Title
			if is := shown[name] || sometime(t, b, p); is == (neverShown[name] != "") {
				t.Errorf("%s shows something: %v; expected not: %q", name, is, neverShown[name])
			}
		}
	}
}

// sometime reports whether a panel shows something in any minute of any state.
func sometime(t *testing.T, b board.Board, p board.Panel) bool {
	t.Helper()
	return slices.ContainsFunc(ruled(), func(s states.State) bool {
		src, w := memstore.Over(s.Storage(false)), window(s)
		for w.To = s.Start().Add(time.Minute); !w.To.After(s.End()); w.To = w.To.Add(time.Minute) {
			if a, err := eval.Ask(t.Context(), src, p, eval.All(b), w); err == nil && len(cells(a)) > 0 {
				return true
			}
		}
		return false
	})
}

func checkBoard(t *testing.T, src eval.Source, b board.Board, w eval.Window, state string, used, shown map[string]bool) {
	t.Helper()
	vars := eval.All(b)
	for _, v := range b.Vars {
		if v.Name != board.Datasource {
			expr, err := eval.Fill(v.Values(), vars, w)
			require.NoError(t, err)
			values, err := src.Query(t.Context(), expr, w.To)
			require.NoError(t, err)
			none := !slices.ContainsFunc(values, func(s prom.Sample) bool { return s.Labels.Get(v.Label) != "" })
			empty(t, b.UID+"/$"+v.Name, none, state, used)
		}
	}
	if _, err := eval.Events(t.Context(), src, b, vars, w); err != nil {
		t.Errorf("%s: %v", b.UID, err)
	}
	for _, p := range panels(b) {
		a, err := eval.Ask(t.Context(), src, p, vars, w)
		name := b.UID + "/" + p.Title
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		shown[name] = shown[name] || len(cells(a)) > 0
		checkAnswer(t, name, a, state, used)
	}
}

// panels of a board, without the rows' headings.
func panels(b board.Board) []board.Panel {
	var all []board.Panel
	for _, row := range b.Rows {
		all = append(all, row.Panels...)
	}
	return all
}

func checkAnswer(t *testing.T, name string, a eval.Answer, state string, used map[string]bool) {
	t.Helper()
	empty(t, name, len(cells(a)) == 0, state, used)
	names := map[string]bool{}
	for _, s := range a.Series {
		if names[s.Name] {
			t.Errorf("%s: two series are called %q", name, s.Name)
		}
		names[s.Name] = true
		if s.Name == "" && len(a.Series) > 1 {
			t.Errorf("%s: several series, and one has no name", name)
		}
		for _, p := range s.Points {
			if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
				t.Errorf("%s: %q is %v", name, s.Name, p.Value)
				break
			}
		}
	}
	for _, c := range cells(a) {
		if math.IsNaN(c.Value) || math.IsInf(c.Value, 0) {
			t.Errorf("%s shows %v", name, c.Value)
		}
	}
	if a.Table != nil {
		checkRows(t, name, *a.Table)
	}
}

// No two rows of a table have the same labels: they would have been one.
func checkRows(t *testing.T, name string, g eval.Grid) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range g.Rows {
		var labels []string
		for i, c := range row {
			if g.Columns[i].Label {
				labels = append(labels, c.Text)
			}
		}
		if key := fmt.Sprint(labels); seen[key] {
			t.Errorf("%s: two rows of %s", name, key)
		} else {
			seen[key] = true
		}
	}
}

// TestEscapedNames: servers whose names Prometheus 2 has escaped are on the panels of model servers.
func TestEscapedNames(t *testing.T) {
	s, b, met := find(t, states.Healthy).WithRules(), boards.Workload(), 0
	for _, p := range panels(b) {
		if p.Kind != board.Series || !strings.Contains(p.Queries[0].Expr, metric.Escape("sglang:")) && !strings.Contains(p.Queries[0].Expr, "pod:llm_first_token_seconds:") {
			continue
		}
		met++
		a, err := eval.Ask(t.Context(), memstore.Over(s.Storage(false)), p, eval.All(b), window(s))
		if err != nil || !slices.ContainsFunc(a.Series, func(line eval.Series) bool { return line.Name == "research/rank-0" }) {
			t.Errorf("%s does not show SGLang's pods: %v", p.Title, err)
		}
	}
	if met != 4 {
		t.Errorf("%d panels are about model servers, want 4", met)
	}
}

// empty checks what is empty against the table, both ways.
func empty(t *testing.T, name string, is bool, state string, used map[string]bool) {
	t.Helper()
	may := slices.Contains(mayBeEmpty(t)[name], state)
	if is && !may {
		t.Errorf("%s is empty", name)
	}
	if is && may {
		used[name] = true
	}
}

// mayBeEmpty are the states in which a panel or a variable may have nothing to show: testdata/empty.txt.
func mayBeEmpty(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/empty.txt")
	require.NoError(t, err)
	all, in := map[string][]string{}, []string(nil)
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "  "); ok {
			all["gpuscale-"+strings.TrimSpace(name)] = in
		} else if before, _, ok := strings.Cut(line, ": "); ok && before[0] != '#' {
			in = strings.Fields(before)
		}
	}
	return all
}

// cells are all values shown now: the last of each series, or every cell with a
// value in a table.
func cells(a eval.Answer) []eval.Cell {
	var all []eval.Cell
	if a.Table != nil {
		for _, row := range a.Table.Rows {
			for i, c := range row {
				if !a.Table.Columns[i].Label && c.Known {
					all = append(all, c)
				}
			}
		}
		return all
	}
	for _, s := range a.Series {
		all = append(all, eval.LookOf(a.Panel, s.Name).Show(s.Last()))
	}
	return all
}

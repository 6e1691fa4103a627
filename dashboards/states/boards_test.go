package states_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/internal/prom"
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
				src, w := eval.Engine(s.Storage(honor)), window(s)
				for _, b := range boards.All() {
					checkBoard(t, src, b, w, s.Name, used, shown)
				}
			})
		}
	}
	for key := range mayBeEmpty {
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
		src, w := eval.Engine(s.Storage(false)), window(s)
		for w.To = s.Start().Add(time.Minute); !w.To.After(s.End()); w.To = w.To.Add(time.Minute) {
			if a, err := eval.Ask(t.Context(), src, p, eval.All(b), w); err == nil && len(a.Cells()) > 0 {
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
			if err != nil {
				t.Fatal(err)
			}
			values, err := src.Query(t.Context(), expr, w.To)
			if err != nil {
				t.Fatal(err)
			}
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
		shown[name] = shown[name] || len(a.Cells()) > 0
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
	empty(t, name, len(a.Cells()) == 0, state, used)
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
	for _, c := range a.Cells() {
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

// empty checks what is empty against the table, both ways.
func empty(t *testing.T, name string, is bool, state string, used map[string]bool) {
	t.Helper()
	why, may := mayBeEmpty[name]
	may = may && slices.Contains(strings.Fields(why.in), state)
	if is && !may {
		t.Errorf("%s is empty", name)
	}
	if is && may {
		used[name] = true
	}
}

// why a panel or a variable may have nothing to show, and in which states.
type why struct{ in, reason string }

// mayBeEmpty are the panels and variables that may be empty at the end of a recording,
// with states and reason. All others must always show something.
var mayBeEmpty = emptyTable()

func emptyTable() map[string]why {
	all := map[string]why{}
	for _, g := range []struct{ in, reason, names string }{
		{"empty", "no nodes, no GPUs, no demand", `
			autoscaler/$model autoscaler/By pool, autoscaler/GPUs by state, autoscaler/GPUs, autoscaler/Computing, autoscaler/Free, autoscaler/From capacity to work,
			autoscaler/Allocated and idle, autoscaler/Allocated, autoscaler/Hourly cost of not computing, autoscaler/Unusable, autoscaler/Sick or unready, autoscaler/Where GPU time goes,
			autoscaler/Pods by verdict, overview/GPUs by product, overview/Allocated GPUs, overview/Busy, mig/$pool`},
		{"empty", "no quota, no allocation and no HPA exists", `
			autoscaler/$tenant autoscaler/$namespace autoscaler/GPU hours by namespace, autoscaler/Quotas, autoscaler/Use of the guarantee,
			autoscaler/Pending time; p95, workload/$hpa workload/HPAs at their maximum, workload/HPA replicas`},
		{"empty", "no action is needed", `autoscaler/Actions, autoscaler/Actions over time`},
		{"empty", "no node has an exporter; in the state down its past is still shown", `
			health/Energy, health/Hottest GPUs, health/Hottest memory, health/Gone, health/Power by node, workload/Busy by pod, workload/Memory in use by pod`},
		{"empty down", "no exporter answers", `
			health/$node health/$product health/Broken, health/GPUs, health/Health unknown, health/Healthy, health/Oldest value, health/XID errors,
			overview/$namespace overview/GPUs, overview/Allocated, overview/Mean busy, overview/Allocated and idle, overview/Broken, overview/Driver not answering, overview/Oldest value, overview/Power,
			overview/By node, overview/By namespace, overview/Labels of pods,
			workload/$namespace workload/GPUs and slices, workload/Longest idle, workload/Mean busy, workload/Pods with GPUs, workload/Allocations`},
		{"xid empty", "no GPU is in MIG mode, all are whole and in use or free", `mig/Before, mig/Instances, mig/Unusable free slices, autoscaler/Unusable; by cause`},
		{"xid empty down", "no GPU is in MIG mode, or no exporter answers", `mig/$node mig/Instances by profile, mig/Now`},
		{"healthy xid empty down", "no GPU is repartitioned", `mig/GPUs repartitioned, mig/Repartitions under way, mig/Repartitions`},
		{"xid empty", "no pod waits for an action", `autoscaler/Decision; p95`},
		{"mig empty", "no HPA is limited", `workload/HPA limits`},
		{"mig xid empty", "no forecast is listed, no model server runs", `
			autoscaler/Forecast, workload/KV cache in use, workload/Requests running, workload/Requests waiting now,
			workload/Requests waiting, workload/Time to first token; p95`},
		{"healthy xid empty", "no demand is unserved", `autoscaler/Unserved GPUs`},
		{"mig empty", "no node left, and none was added", `health/Gone GPUs, autoscaler/Request to ready`},
		{"mig xid empty down", "no node was interrupted", `autoscaler/Nodes interrupted`},
		{"healthy mig empty down", "no clock is throttled", `health/Clocks throttled`},
		{"healthy mig empty down", "no memory had an error", `health/Memory errors by GPU`},
		{"healthy mig empty down", "no GPU had an error", `health/GPUs that were broken, health/XID errors by GPU, health/XID errors by code`},
		{"healthy mig xid empty down", "no GPU is broken, or its node has been replaced by then", `health/Broken GPUs`},
		{"healthy mig xid empty down", "no action fails in the recordings", `autoscaler/What failed`},
	} {
		for _, name := range names(g.names) {
			all["gpuscale-"+name] = why{g.in, g.reason}
		}
	}
	return all
}

// names reads a list: a variable is a word, a panel's title ends at a comma, with a
// semicolon for a comma of its own.
func names(text string) []string {
	var all []string
	for _, part := range strings.Split(strings.Join(strings.Fields(text), " "), ",") {
		part = strings.TrimSpace(part)
		for strings.Contains(part, "/$") {
			word, rest, _ := strings.Cut(part, " ")
			all, part = append(all, word), rest
		}
		if part != "" {
			all = append(all, strings.ReplaceAll(part, ";", ","))
		}
	}
	return all
}

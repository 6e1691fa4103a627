package states

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
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// window is that of a board opened at the end of the recording.
func window(s State) eval.Window {
	return eval.Window{From: s.Start(), To: s.End(), Step: 30 * time.Second, Scrape: Every}
}

// withRules are the states with the series of our recording rules.
func withRules() []State {
	all := All()
	for i := range all {
		all[i] = all[i].WithRules()
	}
	return all
}

// Every query of every panel, variable and annotation is answered in every state, with and without honor_labels:
// without an error, NaN or two series of one name, and empty exactly where testdata/empty.txt has it.
func TestEveryPanelInEveryState(t *testing.T) {
	mayBeEmpty, seen := emptyIn(t), map[string]bool{}
	for _, s := range withRules() {
		for _, honor := range []bool{true, false} {
			src, w := memstore.Over(s.Storage(honor)), window(s)
			for _, b := range boards.All() {
				for name, is := range checkBoard(t, src, b, w) {
					if key := name + " in " + s.Name; is != mayBeEmpty[key] {
						t.Errorf("%s, honor_labels=%v: empty: %v, testdata/empty.txt: %v", key, honor, is, mayBeEmpty[key])
					}
					seen[name+" in "+s.Name] = true
				}
			}
		}
	}
	times := map[string]int{}
	for key := range mayBeEmpty {
		name, _, _ := strings.Cut(key, " in ")
		if times[name]++; !seen[key] || times[name] == len(All()) && name != "gpuscale-autoscaler/What failed" {
			t.Errorf("testdata/empty.txt has %s, which is no panel or variable, or shows something in no state", key)
		}
	}
}

// checkBoard reports which panels and variables are empty.
func checkBoard(t *testing.T, src eval.Source, b board.Board, w eval.Window) map[string]bool {
	t.Helper()
	empty := map[string]bool{}
	for _, v := range b.Vars {
		if v.Name != board.Datasource {
			expr, err := eval.Fill(v.Values(), b, w)
			require.NoError(t, err)
			values, err := src.Query(t.Context(), expr, w.To)
			require.NoError(t, err)
			empty[b.UID+"/$"+v.Name] = !slices.ContainsFunc(values, func(s prom.Sample) bool { return s.Labels.Get(v.Label) != "" })
		}
	}
	if _, err := eval.Events(t.Context(), src, b, w); err != nil {
		t.Errorf("%s: %v", b.UID, err)
	}
	for _, p := range panels(b) {
		a, err := eval.Ask(t.Context(), src, b, p, w)
		name := b.UID + "/" + p.Title
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		empty[name] = len(cells(a)) == 0
		checkAnswer(t, name, a)
	}
	return empty
}

// panels of a board, without the rows' headings.
func panels(b board.Board) []board.Panel {
	var all []board.Panel
	for _, row := range b.Rows {
		all = append(all, row.Panels...)
	}
	return all
}

func checkAnswer(t *testing.T, name string, a eval.Answer) {
	t.Helper()
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

// checkRows: no two rows of a table have the same labels, since they should be one row.
func checkRows(t *testing.T, name string, g eval.Grid) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range g.Rows {
		var labels []string
		for i, c := range row {
			if g.Columns[i].Label != "" {
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
	s, b, met := find(t, Healthy).WithRules(), boards.Workload(), 0
	for _, p := range panels(b) {
		if p.Kind != board.Series || !strings.Contains(p.Queries[0].Expr, metric.Escape("sglang:")) && !strings.Contains(p.Queries[0].Expr, "pod:llm_first_token_seconds:") {
			continue
		}
		met++
		a, err := eval.Ask(t.Context(), memstore.Over(s.Storage(false)), b, p, window(s))
		recorded := strings.HasPrefix(p.Title, "Time to first token") // TestNothingIsMadeOfNothing has its names
		if err != nil || !slices.ContainsFunc(a.Series, func(line eval.Series) bool { return line.Name == "research/rank-0" }) || !recorded && !strings.Contains(p.Queries[0].Expr, metric.Escape("vllm:")) {
			t.Errorf("%s does not show SGLang's pods, or vLLM's: %v", p.Title, err)
		}
		for _, line := range a.Series { // a server runs 30 requests at most
			if p.Title == "Requests running" && slices.ContainsFunc(line.Points, func(at prom.Point) bool { return at.Value > 30 }) {
				t.Errorf("%s counts the requests of %s twice", p.Title, line.Name)
			}
		}
	}
	if met != 4 {
		t.Errorf("%d panels are about model servers, want 4", met)
	}
}

// emptyIn are the panels and variables with nothing to show at the end of a state: testdata/empty.txt.
func emptyIn(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/empty.txt")
	require.NoError(t, err)
	all, in := map[string]bool{}, []string(nil)
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "  "); ok {
			for _, state := range in {
				all["gpuscale-"+strings.TrimSpace(name)+" in "+state] = true
			}
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
				if a.Table.Columns[i].Label == "" && c.Known {
					all = append(all, c)
				}
			}
		}
		return all
	}
	for _, s := range a.Series {
		all = append(all, eval.Show(a.Panel, s.Name, s.Last()))
	}
	return all
}

// TestRequestsWaiting: each server of docs/signals.md is on the panels. Requests that a gateway repeats of its servers
// count once. In a namespace whose servers are not scraped, the gateway's series are read. A server whose pod has a
// label of gateways' series is no gateway. A pod's label priority is not SGLang's, whose numbers by priority are in its
// total. Series with NIM's names and without a model are another program's. The names are those of the adapter's
// TestServers and scenarios.
func TestRequestsWaiting(t *testing.T) {
	to := time.Unix(1_800_000_000, 0)
	series, err := memstore.Read(`
vllm:num_requests_waiting{namespace="chat",pod="a",model_name="m",engine="0"} 5x20
kserve_vllm:num_requests_waiting{namespace="chat",pod="b",model_name="m",engine="0"} 2x20
vllm:num_requests_waiting{namespace="chat",pod="router",server="http://10.0.0.1:8000"} 5x20
sglang_num_queue_reqs{namespace="chat",pod="gateway",model_name="m",worker_addr="http://10.0.0.1:8000"} 5x20
sglang_num_decode_prealloc_queue_reqs{namespace="alone",pod="gateway",model_name="m",worker_addr="http://10.0.0.1:8000"} 3x20
sglang_num_queue_reqs{namespace="alone",pod="gateway",model_name="m",worker_addr="http://10.0.0.1:8000"} 10x20
sglang_num_queue_reqs{namespace="alone",pod="gateway",model_name="m",worker_addr="http://10.0.0.2:8000"} 12x20
nv_trt_llm_request_metrics{namespace="others",pod="triton",model="m",version="1",request_type="waiting"} 4x20
nv_trt_llm_request_metrics{namespace="others",pod="triton",model="m",version="1",request_type="active"} 9x20
lmdeploy:num_requests_waiting{namespace="others",pod="lmdeploy",model_name="m",engine="0"} 2x20
lmdeploy:num_api_requests_waiting{namespace="others",pod="lmdeploy",model_name="m",engine="0"} 5x20
num_requests_waiting{namespace="others",pod="nim",model_name="m"} 3x20
te_queue_size{namespace="others",pod="tei"} 6x20
num_requests_waiting{namespace="others",pod="rag"} 50x20
llamacpp:requests_deferred{namespace="others",pod="llama"} 1x20
vllm:num_requests_waiting{namespace="labelled",pod="a",server="of-the-pod",priority="of-the-pod",model_name="m",engine="0"} 8x20
tgi_queue_size{namespace="labelled",pod="b"} 1x20
sglang_num_queue_reqs{namespace="labelled",pod="c",model_name="m"} 4x20
sglang_num_queue_reqs{namespace="labelled",pod="c",model_name="m",priority="1"} 4x20
`, memstore.Until(to, Every))
	require.NoError(t, err)
	w := eval.Window{From: to.Add(-5 * time.Minute), To: to, Step: 30 * time.Second, Scrape: Every}
	asked := 0
	for _, p := range panels(boards.Workload()) {
		if p.Title != "Requests waiting now" && p.Title != "Requests waiting" {
			continue
		}
		asked++
		a, err := eval.Ask(t.Context(), memstore.Over(series), boards.Workload(), p, w)
		require.NoError(t, err)
		total := 0.0
		for _, one := range a.Series {
			total += one.Last()
		}
		if total != 66 {
			t.Errorf("%s: %v requests, want 5 and 2 of chat, 25 that the gateway reports of alone, 21 of others, and 8, 1 and 4 of labelled: %+v", p.Title, total, a.Series)
		}
	}
	if asked != 2 {
		t.Errorf("%d panels, want two", asked)
	}
}

// TestFirstTokensOfNIM: a histogram with NIM's name counts if it has a model. Other programs have that name, too.
func TestFirstTokensOfNIM(t *testing.T) {
	to := time.Unix(1_800_000_000, 0)
	series, err := memstore.Read(`
time_to_first_token_seconds_bucket{namespace="chat",pod="nim",model_name="m",le="1"} 0+9x20
time_to_first_token_seconds_bucket{namespace="chat",pod="nim",model_name="m",le="+Inf"} 0+9x20
time_to_first_token_seconds_bucket{namespace="chat",pod="rag",le="1"} 0+9x20
time_to_first_token_seconds_bucket{namespace="chat",pod="rag",le="+Inf"} 0+9x20
`, memstore.Until(to, Every))
	require.NoError(t, err)
	r, _ := rules.Find("pod:llm_first_token_seconds:p95_5m")
	v, _, err := memstore.Instant(t.Context(), engine, series, r.Expr, to)
	require.NoError(t, err)
	if len(v) != 1 || v[0].Metric.Get(metric.LabelPod) != "nim" {
		t.Errorf("%v, want one of the pod nim", v)
	}
}

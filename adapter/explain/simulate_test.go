package explain

import (
	"strings"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

func worldOf(t *testing.T, spec string) World {
	t.Helper()
	w := World{
		adapter: provider.Answerer{Pods: recorded(nil), Scales: recorded(nil)}, Scale: provider.Scale{Selector: labels.SelectorFromSet(labels.Set{"app": "vllm"})},
		kinds: testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme),
	}
	w.HPA.Namespace, w.HPA.Name = "chat", "vllm"
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &w.HPA.Spec))
	w.HPA.Spec.ScaleTargetRef = autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "vllm"}
	w.HPA.Spec = hpa.Defaulted(w.HPA.Spec)
	return w
}

const onQueue = `
minReplicas: 1
maxReplicas: 6
metrics:
- type: Object
  object:
    describedObject: {apiVersion: apps/v1, kind: Deployment, name: vllm}
    metric: {name: queue_depth}
    target: {type: AverageValue, averageValue: "8"}
behavior:
  scaleUp: {policies: [{type: Pods, value: 2, periodSeconds: 60}]}
  scaleDown: {stabilizationWindowSeconds: 120}
`

// past is half an hour: one pod's queue grows and empties, and another pod comes at the highest queue and goes before
// the end.
const past = `
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0"} 4x20 4+4x10 44x20 44-4x10 4x57
vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-bbbbb",model_name="m",engine="0"} _x40 8x20 _x60
vllm:num_requests_waiting{namespace="chat",pod="other-7d4b9c-bbbbb",model_name="m",engine="0"} 900x120
`

func simulated30m(t *testing.T, w World, q Querier, change func(*Simulation)) Timeline {
	t.Helper()
	s := Simulation{
		Range:   Range{From: end.Add(-30 * time.Minute), To: end, Step: 15 * time.Second},
		Options: Options{Rules: rules(q), Tolerance: hpa.DefaultTolerance, Window: hpa.DefaultWindow}, Load: Recorded, Progress: func(string, int, int) {},
	}
	if change != nil {
		change(&s)
	}
	timeline, err := Simulate(t.Context(), w, s)
	require.NoError(t, err)
	return timeline
}

func TestSimulate(t *testing.T) {
	timeline := simulated30m(t, worldOf(t, onQueue), load(t, past, nil), nil)
	var text, table strings.Builder
	require.NoError(t, timeline.Text(&text))
	golden.Equal(t, "testdata/simulate.txt", text.String())
	require.NoError(t, timeline.CSV(&table))
	if n := strings.Count(table.String(), "\n"); n != 122 {
		t.Errorf("%d lines of CSV, want a head and 121 steps", n)
	}
	if s := timeline.Summary; s.Ups == 0 || s.Downs == 0 || s.UnknownSeconds != 0 {
		t.Errorf("%+v", s)
	}
}

// An outage keeps the replicas as they are: they are unknown, and not those of an empty queue.
func TestSimulateThroughAnOutage(t *testing.T) {
	const gap = `vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0"} 4x40 20x10 _x12 20x56`
	timeline := simulated30m(t, worldOf(t, onQueue), load(t, gap, nil), nil)
	if s := timeline.Summary.UnknownSeconds; s < 60 || s > 180 {
		t.Errorf("unknown for %gs, want what remains of 3m after the maximal age", s)
	}
	before := timeline.Initial
	for _, m := range timeline.Moments {
		if m.Unknown && (m.Replicas != before || m.Values[0] != nil) {
			t.Errorf("at %s: %+v", m.At, m)
		}
		before = m.Replicas
	}
}

// A pod that is scraped each two minutes lives to the end.
func TestSimulateSlowScrapes(t *testing.T) {
	slow := `vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0"} ` + strings.Repeat("4 _ _ _ _ _ _ _ ", 15)
	for _, m := range simulated30m(t, worldOf(t, onQueue), load(t, slow, nil), nil).Moments[1:] {
		if m.Recorded != 1 {
			t.Errorf("at %s: %d pods", m.At, m.Recorded)
		}
	}
}

// Twice the target proposes at most half the replicas.
func TestSimulateAChange(t *testing.T) {
	w := worldOf(t, onQueue)
	as := simulated30m(t, w, load(t, past, nil), nil).Summary
	spec, err := Set(w.HPA.Spec, []string{"metrics[0].target.averageValue=30", "maxReplicas=3"})
	require.NoError(t, err)
	w.HPA.Spec = spec
	changed := simulated30m(t, w, load(t, past, nil), nil).Summary
	if !(changed.ReplicaHours < as.ReplicaHours) || changed.HighestReplicas > 3 {
		t.Errorf("%+v and %+v", as, changed)
	}
}

const onCache = `
minReplicas: 1
maxReplicas: 8
metrics:
- type: Pods
  pods:
    metric: {name: kv_cache_usage}
    target: {type: AverageValue, averageValue: 600m}
`

// An average does not depend on the number of replicas, unless the load counts as the workload's: then it falls as
// replicas increase.
func TestSimulateSharesTheTotal(t *testing.T) {
	w := worldOf(t, onCache)
	const full = `vllm:kv_cache_usage_perc{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0"} 0.9x120`
	as := simulated30m(t, w, load(t, full, nil), nil).Summary
	total := simulated30m(t, w, load(t, full, nil), func(s *Simulation) { s.Load = Total }).Summary
	if as.HighestReplicas != 8 || total.HighestReplicas != 2 {
		t.Errorf("recorded up to %d, want all 8; total up to %d, want 2", as.HighestReplicas, total.HighestReplicas)
	}
}

// The percentiles' queries are longer than VictoriaMetrics takes, so they are sent in pieces.
func TestLongQueriesGoInPieces(t *testing.T) {
	w := worldOf(t, strings.ReplaceAll(onCache, "kv_cache_usage", "ttft_p95"))
	q := load(t, `
vllm:time_to_first_token_seconds_bucket{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0",le="1"} 0+1x120
vllm:time_to_first_token_seconds_bucket{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0",le="+Inf"} 0+1x120
`, nil)
	if s := simulated30m(t, w, q, nil).Summary; s.HighestReplicas != 8 {
		t.Errorf("%+v", s)
	}
	if samples := explained(t, w, q).Metrics[0].Samples; len(samples) != 1 {
		t.Errorf("%+v", samples)
	}
}

func TestSimulateFromAndToZero(t *testing.T) {
	w := worldOf(t, `
minReplicas: 0
maxReplicas: 4
metrics:
- type: External
  external:
    metric: {name: queue_depth}
    target: {type: AverageValue, averageValue: "8"}
behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
`)
	const gateway = `vllm:num_requests_waiting{namespace="chat",pod="vllm-7d4b9c-aaaaa",model_name="m",engine="0"} 0x60 20x10 0x49`
	s := simulated30m(t, w, load(t, gateway, nil), nil)
	lowest, woken := false, false
	for _, m := range s.Moments {
		lowest = lowest || m.Replicas == 0
		woken = woken || lowest && m.Replicas == 3
	}
	if !woken || s.Moments[len(s.Moments)-1].Replicas != 0 {
		t.Errorf("to zero %v, from there to 3 %v, at last %d", lowest, woken, s.Moments[len(s.Moments)-1].Replicas)
	}
}

func TestRangesAreBounded(t *testing.T) {
	for want, r := range map[string]Range{
		"not later":             {From: end, To: end, Step: time.Minute},
		"more than 20000":       {From: end.Add(-400 * 24 * time.Hour), To: end, Step: 15 * time.Second},
		"shorter than a second": {From: end.Add(-time.Hour), To: end},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestSimulateFailsWithoutPrometheus(t *testing.T) {
	q := load(t, past, func(time.Time) bool { return true })
	_, err := Simulate(t.Context(), worldOf(t, onQueue), Simulation{
		Range: Range{From: end.Add(-time.Minute), To: end, Step: 15 * time.Second}, Options: Options{Rules: rules(q)}, Progress: func(string, int, int) {},
	})
	if err == nil || !strings.Contains(err.Error(), "querying queue_depth: prometheus unavailable") {
		t.Error(err)
	}
}

func TestSimulationsAreBounded(t *testing.T) {
	w := worldOf(t, onQueue)
	w.HPA.Spec.MaxReplicas = maxReplicas + 1
	if _, err := Simulate(t.Context(), w, Simulation{}); err == nil || !strings.Contains(err.Error(), "--set maxReplicas=") {
		t.Error(err)
	}
	w.HPA.Spec.MaxReplicas, w.HPA.Spec.Metrics = 5, nil
	many := int32(maxReplicas + 1)
	if _, err := Simulate(t.Context(), w, Simulation{Replicas: &many}); err == nil || !strings.Contains(err.Error(), "has at most") {
		t.Error(err)
	}
}

func TestChangesOfSeveralDaysHaveTheirDate(t *testing.T) {
	t1 := Timeline{From: end, To: end.Add(36 * time.Hour), Moments: []Moment{{At: end.Add(30 * time.Hour), Replicas: 3}}}
	var out strings.Builder
	if err := t1.Text(&out); err != nil || !strings.Contains(out.String(), "01-02 06:00:00    0 → 3") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

package fleet_test

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestSeries runs testdata/series. A file is one autoscaler over one simulated
// cluster.
//
//	reconcile [after=10s] [idle] [fail=POOL] [failures=POOL:N] [interrupted=NODE] [acted=200ms]
//	                 changes the cluster by the lines below, advances the time, binds
//	                 the pods that fit and reconciles. Actions on the pool of fail fail,
//	                 others succeed; failures is the pool's number of successive
//	                 failures; acted is the duration of the reconcile
//	snapshot         the fleet begins again with these lines alone, as they are: nothing
//	                 is bound, planned or done
//	hpa NS/NAME min=1 max=4 [current=2 desired=3] [limits=A,B]
//	                 A limits its replicas; for B it is not active
//	show NAME …      the series of these names, without gpuscale_autoscaler_
//	lead no|yes      whether the replica leads
func TestSeries(t *testing.T) {
	datadriven.Walk(t, "testdata/series", func(t *testing.T, path string) {
		c := newCase()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := c.do(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			c.lint(t)
			return out
		})
	})
}

type testCase struct {
	world    *scenario.World
	fleet    *fleet.Fleet
	registry *prometheus.Registry
	hpas     []*autoscalingv2.HorizontalPodAutoscaler
	memory   plan.State
}

func newCase() *testCase {
	c := &testCase{world: scenario.NewWorld(), fleet: fleet.New(), registry: prometheus.NewPedanticRegistry()}
	c.registry.MustRegister(c.fleet)
	c.fleet.Lead(true)
	return c
}

func (c *testCase) do(d *datadriven.TestData) (string, error) {
	words := map[string]string{}
	for _, a := range d.CmdArgs {
		words[a.Key] = strings.Join(a.Vals, ",")
	}
	switch d.Cmd {
	case "reconcile":
		return "ok\n", c.reconcile(words, d.Input)
	case "snapshot":
		s, _, err := scenario.Parse(d.Input)
		if err != nil {
			return "", err
		}
		c.fleet.Lead(false)
		c.fleet.Lead(true)
		c.fleet.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}})
		return "ok\n", nil
	case "hpa":
		return "ok\n", c.hpa(d.CmdArgs[0].Key, words)
	case "lead":
		c.fleet.Lead(d.CmdArgs[0].Key == "yes")
		return "ok\n", nil
	case "show":
		return c.show(d.CmdArgs)
	}
	return "", fmt.Errorf("there is no %s", d.Cmd)
}

func (c *testCase) hpa(key string, words map[string]string) error {
	namespace, name, _ := strings.Cut(key, "/")
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.MinReplicas = new(int32)
	for key, at := range map[string]*int32{"min": h.Spec.MinReplicas, "max": &h.Spec.MaxReplicas, "current": &h.Status.CurrentReplicas, "desired": &h.Status.DesiredReplicas} {
		if text, ok := words[key]; ok {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return err
			}
			*at = int32(n)
		}
	}
	condition := func(of autoscalingv2.HorizontalPodAutoscalerConditionType, is corev1.ConditionStatus, reason string) {
		h.Status.Conditions = append(h.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: of, Status: is, Reason: reason})
	}
	if _, seen := words["current"]; seen {
		condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale")
		condition(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero") // of each HPA from Kubernetes 1.37 on
	}
	switch limited, inactive, _ := strings.Cut(words["limits"], ","); {
	case limited != "":
		condition(autoscalingv2.ScalingLimited, corev1.ConditionTrue, limited)
		condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, inactive)
	case len(h.Status.Conditions) > 0:
		condition(autoscalingv2.ScalingLimited, corev1.ConditionFalse, "DesiredWithinRange")
	}
	c.hpas = append(c.hpas, h)
	return nil
}

// reconcile reconciles, by default a millisecond after the last time.
func (c *testCase) reconcile(words map[string]string, text string) error {
	if _, err := c.world.Exec(text); err != nil {
		return err
	}
	after := time.Millisecond
	if words["after"] != "" {
		var err error
		if after, err = time.ParseDuration(words["after"]); err != nil {
			return err
		}
	}
	c.world.Sim.Advance(after)
	s := c.world.Sim.Snapshot()
	for i := range s.Nodes {
		if s.Nodes[i].Name == words["interrupted"] {
			s.Nodes[i].LeavesAt, s.Nodes[i].Cordoned = s.Now.Add(2*time.Minute), true
		}
	}
	s.State = c.memory
	p := plan.Make(s, c.world.Policy)
	c.memory = p.State
	r := fleet.Reconcile{Observation: &observe.Observation{Snapshot: s, HPAs: c.hpas, Learned: learned(words["failures"])}, Plan: &p, Acted: s.Now}
	if words["acted"] != "" {
		took, err := time.ParseDuration(words["acted"])
		if err != nil {
			return err
		}
		r.Acted = s.Now.Add(took)
	}
	var done plan.Plan
	done.State = p.State
	for _, a := range p.Actions {
		outcome := act.Done
		if a.Pool == words["fail"] {
			outcome = act.Failed
		} else {
			done.Actions = append(done.Actions, a)
		}
		r.Results = append(r.Results, act.Result{Action: a, Outcome: outcome})
	}
	if err := c.world.Sim.Apply(done); err != nil {
		return err
	}
	c.fleet.Observe(r)
	return nil
}

// learned reads "POOL:N".
func learned(text string) map[string]pools.Learned {
	pool, n, _ := strings.Cut(text, ":")
	failures, _ := strconv.Atoi(n)
	return map[string]pools.Learned{pool: {Failures: failures}}
}

// show prints series without help, type, the common prefix and zeros, to nine digits.
func (c *testCase) show(names []datadriven.CmdArg) (string, error) {
	families, err := c.registry.Gather()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, f := range families {
		short := strings.TrimPrefix(f.GetName(), "gpuscale_autoscaler_")
		for _, name := range names {
			if name.Key != short {
				continue
			}
			var text bytes.Buffer
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				return "", err
			}
			for line := range strings.Lines(text.String()) {
				if series, number, _ := strings.Cut(line, "} "); !strings.HasPrefix(line, "#") && number != "0\n" {
					out.WriteString(strings.TrimPrefix(series, "gpuscale_autoscaler_") + rounded(number))
				}
			}
		}
	}
	if out.Len() == 0 {
		return "nothing\n", nil
	}
	return out.String(), nil
}

// rounded is the end of a line, "} 0.857142857": a number of nine digits.
func rounded(number string) string {
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil { // a series without labels
		return number
	}
	return "} " + strconv.FormatFloat(v, 'g', 9, 64) + "\n"
}

// lint checks the exposition: Prometheus' naming rules, no empty label.
func (c *testCase) lint(t *testing.T) {
	t.Helper()
	families, err := c.registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "" {
					t.Errorf("%s: an empty %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestUsesAddUpToTheCapacity: through restarts, gaps, repartitions and changes of nodes, every second of a GPU has one
// use: the uses add up to the capacity, and the capacity to the number of GPUs over time.
func TestUsesAddUpToTheCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		var f *fleet.Fleet
		var before map[string]float64
		want, gpus, surveyed, counted, fresh := 0.0, 0, time.Time{}, time.Time{}, true
		restart := func() {
			f, before = fleet.New(), nil
			f.Lead(true)
			want, gpus, fresh = 0, 0, true
		}
		restart()
		for range rapid.IntRange(2, 12).Draw(t, "reconciles") {
			if rapid.IntRange(0, 12).Draw(t, "what") == 0 {
				restart()
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
			s := drawSnapshot(t, now)
			f.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}})
			if !fresh {
				want += float64(gpus) * now.Sub(counted).Seconds()
			}
			counted = now
			if fresh || now.Sub(surveyed) >= 10*time.Second { // a survey is due
				surveyed, gpus, fresh = now, countGPUs(s), false
			}
			before = checkUses(t, f, want, before)
			if got := sumOf(t, f, "gpuscale_autoscaler_gpus"); math.Abs(got-float64(gpus)) > 1e-6 {
				t.Fatalf("the states add up to %v, there are %d GPUs", got, gpus)
			}
		}
	})
}

// checkUses checks the counters and returns them; none may be less than before.
func checkUses(t *rapid.T, f *fleet.Fleet, want float64, before map[string]float64) map[string]float64 {
	uses, capacity, now := map[string]float64{}, map[string]float64{}, map[string]float64{}
	total := 0.0
	for _, family := range gather(t, f) {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key := labels["pool"] + " " + labels["model"]
			switch family.GetName() {
			case "gpuscale_autoscaler_gpu_seconds_total":
				uses[key] += m.GetCounter().GetValue()
				now[fmt.Sprint(m.GetLabel())] = m.GetCounter().GetValue()
			case "gpuscale_autoscaler_capacity_gpu_seconds_total":
				capacity[key] = m.GetCounter().GetValue()
				total += m.GetCounter().GetValue()
			}
		}
	}
	for key, v := range capacity {
		if math.Abs(uses[key]-v) > 1e-6 {
			t.Fatalf("%s: the uses add up to %v, the capacity is %v", key, uses[key], v)
		}
		delete(uses, key)
	}
	if len(uses) > 0 {
		t.Fatalf("uses without a capacity: %v", uses)
	}
	if math.Abs(total-want) > 1e-6 {
		t.Fatalf("the capacity is %v, want %v", total, want)
	}
	for key, v := range before {
		if now[key] < v {
			t.Fatalf("%s went from %v to %v", key, v, now[key])
		}
	}
	return now
}

func gather(t require.T, c prometheus.Collector) []*dto.MetricFamily {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}

// sumOf is the sum of a family's series.
func sumOf(t require.T, f *fleet.Fleet, name string) float64 {
	sum := 0.0
	for _, family := range gather(t, f) {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestManyNamespaces: beyond its bound the ledger keeps its size, and its sum.
func TestManyNamespaces(t *testing.T) {
	f := fleet.New()
	f.Lead(true)
	for step := range 3 {
		s := plan.Snapshot{Now: epoch.Add(time.Duration(step) * time.Minute)}
		for i := range 2500 {
			c := plan.GPU{AllocationKnown: true, AllocatedTo: []string{fmt.Sprintf("team-%d/x", i)}}
			s.Nodes = append(s.Nodes, plan.Node{Name: fmt.Sprint("n", i), Ready: true, GPUs: []plan.GPU{c}})
		}
		f.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}})
	}
	series := 0
	for _, family := range gather(t, f) {
		if family.GetName() == "gpuscale_autoscaler_gpu_seconds_total" {
			series = len(family.GetMetric())
		}
	}
	if got := sumOf(t, f, "gpuscale_autoscaler_gpu_seconds_total"); got != 2500*120 || series > 4*2001+13 {
		t.Errorf("%v seconds in %d series", got, series)
	}
}

func countGPUs(s plan.Snapshot) int {
	n := 0
	for i := range s.Nodes {
		n += len(s.Nodes[i].GPUs)
	}
	return n
}

// drawSnapshot is any cluster, independent of the one before.
func drawSnapshot(t *rapid.T, now time.Time) plan.Snapshot {
	s := plan.Snapshot{Now: now, Pools: []plan.Pool{{Name: "a", Max: 9}, {Name: "b", Max: 9, PricePerHour: 2}}}
	table, _ := mig.ForModel("H100-80GB")
	layouts := table.Maximal()
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		n := plan.Node{Name: fmt.Sprintf("n%d", i), Pool: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "pool"),
			Ready: rapid.IntRange(0, 4).Draw(t, "ready") > 0, Cordoned: rapid.IntRange(0, 5).Draw(t, "cordoned") == 0, Created: now.Add(-time.Hour)}
		for k := range rapid.IntRange(1, 3).Draw(t, "gpus") {
			c := plan.GPU{AllocationKnown: rapid.IntRange(0, 5).Draw(t, "known") > 0}
			c.Index, c.Model = k, gpu.Model{Name: "H100-80GB", Vendor: "nvidia"}
			c.Busy = drawBusy(t)
			if rapid.Bool().Draw(t, "mig") {
				c.MIG = true
				for _, p := range rapid.SampledFrom(layouts).Draw(t, "layout") {
					in := plan.Instance{Placement: p, Placed: true, Busy: drawBusy(t)}
					in.AllocatedTo = drawPod(t)
					c.Instances = append(c.Instances, in)
				}
			} else if h := drawPod(t); h != "" {
				c.AllocatedTo = []string{h}
			}
			n.GPUs = append(n.GPUs, c)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func drawPod(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "chat/a", "chat/b", "train/c"}).Draw(t, "pod")
}

func drawBusy(t *rapid.T) sample.Value {
	if rapid.IntRange(0, 3).Draw(t, "measured") == 0 {
		return sample.Unknown()
	}
	return sample.Known(float64(rapid.IntRange(0, 100).Draw(t, "busy"))/100, time.Second)
}

// TestSeriesOfAPoolThatIsGone: the series of a deleted pool are deleted.
func TestSeriesOfAPoolThatIsGone(t *testing.T) {
	f := fleet.New()
	f.Lead(true)
	for i, pools := range [][]plan.Pool{{{Name: "p"}, {Name: "q"}}, {{Name: "q"}}} {
		s := plan.Snapshot{Now: epoch.Add(time.Duration(i) * time.Minute), Pools: pools}
		f.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}})
	}
	for _, family := range gather(t, f) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "pool" && l.GetValue() == "p" {
					t.Errorf("%s %v", family.GetName(), m)
				}
			}
		}
	}
}

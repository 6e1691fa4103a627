package provider

import (
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// story is what Prometheus answers over time.
type story []chapter

type chapter struct {
	at     time.Duration     // since the beginning
	failed bool              // no answer, a partial one or one that cannot be read: nothing is taken from it
	series map[string]series // by pod, or pod and job; nil: an empty answer
}

type series struct {
	value float64
	age   time.Duration
	bare  bool // without the pod's labels
}

const minute = time.Minute

// both returns an answer in which each of the two pods has a value.
func both(a, b float64) map[string]series { return map[string]series{"a": {value: a}, "b": {value: b}} }

// fault is a way in which data becomes bad. Both pods have one true value all the time; a, b and whole are the answers
// that are allowed at the end.
type fault struct {
	name  string
	then  story
	now   time.Duration
	a, b  bool // the pod's value is known
	whole bool // the value of both together is known
}

func faults(v float64) []fault {
	good := both(v, v)
	nan, inf := math.NaN(), math.Inf(1)
	at := func(d time.Duration, s map[string]series) story { return story{{at: d, series: s}} }
	down := func(until time.Duration) (s story) {
		for d := 5 * time.Second; d < until; d += 5 * time.Second {
			s = append(s, chapter{at: d, failed: true})
		}
		return s
	}
	return []fault{
		{"good", at(5*time.Second, good), 5 * time.Second, true, true, true},
		{"down for a moment", down(10 * time.Second), 10 * time.Second, true, true, true},
		{"down", down(minute), minute, false, false, false},
		{"down for long", down(20 * minute), 20 * minute, false, false, false},
		{"empty", at(20*time.Second, nil), 20 * time.Second, false, false, false},
		{"empty for long", at(20*minute, nil), 20 * minute, false, false, false},
		{"NaN", at(5*time.Second, both(nan, nan)), 5 * time.Second, false, false, false},
		{"NaN in half", at(5*time.Second, both(v, nan)), 5 * time.Second, true, false, false},
		{"+Inf in half", at(5*time.Second, both(v, inf)), 5 * time.Second, true, false, false},
		{"-Inf in half", at(5*time.Second, both(v, -inf)), 5 * time.Second, true, false, false},
		{"1e300 in half", at(5*time.Second, both(v, 1e300)), 5 * time.Second, true, false, false},
		{"negative in half", at(5*time.Second, both(v, -v)), 5 * time.Second, true, false, false},
		{"a duplicate", at(5*time.Second, map[string]series{"a": {value: v}, "b": {value: v}, "b again": {value: v}}), 5 * time.Second, true, true, true},
		{"a duplicate of zero", at(5*time.Second, map[string]series{"a": {value: v}, "b": {value: v}, "b again": {}}), 5 * time.Second, true, true, true},
		{"a duplicate of NaN", at(5*time.Second, map[string]series{"a": {value: v}, "b": {value: v}, "b again": {value: nan}}), 5 * time.Second, true, true, true},
		{"stale zeros", at(20*time.Second, map[string]series{"a": {age: minute}, "b": {age: minute}}), 20 * time.Second, false, false, false},
		{"one stale zero", at(5*time.Second, map[string]series{"a": {value: v}, "b": {age: minute}}), 5 * time.Second, true, false, false},
		{"from the future", at(5*time.Second, map[string]series{"a": {value: v}, "b": {age: -time.Hour}}), 5 * time.Second, true, false, false},
		{"labels lost", at(20*time.Second, map[string]series{"a": {bare: true}, "b": {bare: true}}), 20 * time.Second, false, false, false},
		{"half the targets missing", at(20*time.Second, map[string]series{"a": {value: v}}), 20 * time.Second, true, false, false},
		{"half missing, the other half NaN", at(20*time.Second, map[string]series{"a": {value: nan}}), 20 * time.Second, false, false, false},
		{"back from a gap", append(down(5*minute), chapter{at: 5 * minute, series: good}), 5 * minute, true, true, true},
		{"half back from a gap", append(down(5*minute), chapter{at: 5 * minute, series: map[string]series{"a": {value: v}}}), 5 * minute, true, false, false},
		{"back from a gap with what was before it", append(down(5*minute), chapter{at: 5 * minute, series: map[string]series{"a": {age: 5 * minute}, "b": {age: 5 * minute}}}), 5 * minute, false, false, false},
		{"coming and going", story{{at: 5 * time.Second, series: map[string]series{"a": {value: v}}}, {at: 20 * time.Second, series: good}, {at: 40 * time.Second, series: map[string]series{"b": {value: v}}}}, 40 * time.Second, false, true, false},
	}
}

// reported applies a story to a rule and returns a provider with the result.
func reported(t *testing.T, r signal.Rule, s story, since time.Duration) *Provider {
	t.Helper()
	table := signal.NewTable(r)
	for _, c := range s {
		if c.failed {
			continue // the cache keeps the table it has
		}
		at := now.Add(c.at)
		var samples []signal.Sample
		for name, x := range c.series {
			pod, job := name[:1], name[1:]
			pairs := []string{"namespace", "chat", "pod", pod, "job", "vllm" + job, "gpu_uuid", "GPU-" + pod}
			if x.bare {
				pairs = []string{"namespace", "chat", "job", name}
			}
			samples = append(samples, sample(x.value, at.Add(-x.age), pairs...)...)
		}
		table, _ = table.Read(samples, signal.Reading{Evaluated: at, Now: at})
	}
	p := tenants(t)
	p.tables = fixedTables{r.Name: {Table: table}}
	p.Now = func() time.Time { return now.Add(since) }
	return p
}

// TestFaults has every rule see every fault and queries every API: a known value is answered exactly, and an unknown
// one is never a number.
func TestFaults(t *testing.T) {
	for _, r := range signal.Builtin(maxAge) {
		v := 40.0
		if r.Maximum < 2 {
			v = 0.4
		}
		r.Sources = r.Sources[:1]
		r.Sources[0].Idle, r.Sources[0].Absent, r.Sources[0].Scale = nil, nil, nil
		r.Activation = 0
		for _, c := range faults(v) {
			t.Run(fmt.Sprint(r.Name, "/", c.name), func(t *testing.T) {
				p := reported(t, r, append(story{{series: both(v, v)}}, c.then...), c.now)
				whole := v
				if r.PerWorkload == signal.Sum {
					whole = 2 * v
				}
				sameAs(t, p, r.Name, map[string]bool{"a": c.a, "b": c.b}, v, c.whole, whole)
			})
		}
	}
}

func sameAs(t *testing.T, p *Provider, metric string, pods map[string]bool, each float64, known bool, whole float64) {
	t.Helper()
	info := func(group, resource string) cma.CustomMetricInfo {
		return cma.CustomMetricInfo{GroupResource: schema.GroupResource{Group: group, Resource: resource}, Namespaced: resource != "namespaces", Metric: metric}
	}
	number := func(what string, got float64, err error, known bool, want float64) {
		t.Helper()
		switch {
		case err == nil && !known:
			t.Errorf("%s: %v, where nothing is known", what, got)
		case err != nil && known:
			t.Errorf("%s: %v, want %v", what, err, want)
		case known && math.Abs(got-want) > 1e-3:
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	list, err := p.GetMetricBySelector(t.Context(), "chat", all, info("", "pods"), all)
	listed := map[string]float64{}
	if err == nil {
		for _, i := range list.Items {
			listed[i.DescribedObject.Name] = i.Value.AsApproximateFloat64()
		}
		if len(listed) == 0 {
			t.Error("Pods: an empty list is no error")
		}
	}
	for pod, known := range pods {
		value, there := listed[pod]
		if there != known || there && math.Abs(value-each) > 1e-3 {
			t.Errorf("Pods: %s is %v (%v), want %v (%v)", pod, value, there, each, known)
		}
	}
	for _, o := range []struct {
		info cma.CustomMetricInfo
		name types.NamespacedName
	}{
		{info("apps", "deployments"), vllm},
		{info("example.io", "models"), vllm},
		{info("", "services"), vllm},
		{info("", "namespaces"), types.NamespacedName{Name: "chat"}},
	} {
		v, err := p.GetMetricByName(t.Context(), o.name, o.info, all)
		got := 0.0
		if err == nil {
			got = v.Value.AsApproximateFloat64()
		}
		number("Object "+o.info.GroupResource.String(), got, err, known, whole)
	}
	e, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: metric})
	got := 0.0
	if err == nil {
		if len(e.Items) != 1 {
			t.Fatalf("External: %d items", len(e.Items))
		}
		got = e.Items[0].Value.AsApproximateFloat64()
	}
	number("External", got, err, known, whole)
}

// TestTimesAreTheSamples: an answer has the time of its oldest sample and the rule's window, in every API.
func TestTimesAreTheSamples(t *testing.T) {
	r := signal.Builtin(minute)[0]
	r.Sources, r.Window = r.Sources[:1], 30*time.Second
	p := reported(t, r, story{{series: map[string]series{"a": {value: 0.5, age: 20 * time.Second}, "b": {value: 0.5, age: 3 * time.Second}}}}, 4*time.Second)
	oldest := now.Add(-20 * time.Second)
	v, err := p.GetMetricByName(t.Context(), vllm, cma.CustomMetricInfo{GroupResource: deployment.GroupResource, Metric: r.Name}, all)
	if err != nil || !v.Timestamp.Time.Equal(oldest) || *v.WindowSeconds != 30 {
		t.Errorf("Object: %+v, %v", v, err)
	}
	e, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: r.Name})
	if err != nil || !e.Items[0].Timestamp.Time.Equal(oldest) || *e.Items[0].WindowSeconds != 30 {
		t.Errorf("External: %+v, %v", e, err)
	}
	list, err := p.GetMetricBySelector(t.Context(), "chat", all, cma.CustomMetricInfo{GroupResource: podsInfo.GroupResource, Metric: r.Name}, all)
	if err != nil || len(list.Items) != 2 || !list.Items[0].Timestamp.Time.Equal(oldest) || list.Items[1].Timestamp.Time.Equal(oldest) {
		t.Errorf("Pods: %+v, %v", list, err)
	}
}

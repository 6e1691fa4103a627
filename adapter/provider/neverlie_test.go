package provider

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// outcome is what an API may say: a value in thousandths, or nothing.
type outcome struct {
	known bool
	milli int64
}

func is(milli int64) outcome { return outcome{true, milli} }

var nothing = outcome{}

// TestNeverLie: both pods of Deployment chat/vllm have reported a queue of 40
// for a while; then something happens to Prometheus. No API may answer with
// less than is known to be there. (The HPA itself is careful about pods left
// out of a Pods answer; it cannot be about a sum.)
func TestNeverLie(t *testing.T) {
	good := func(string) promtest.Response { return answer(0, queue("chat", "a", 40), queue("chat", "b", 40)) }
	b := func(v float64) func(string) promtest.Response {
		return func(string) promtest.Response { return answer(0, queue("chat", "a", 40), queue("chat", "b", v)) }
	}
	both := func(v float64) func(string) promtest.Response {
		return func(string) promtest.Response { return answer(0, queue("chat", "a", v), queue("chat", "b", v)) }
	}
	say := func(r promtest.Response) func(string) promtest.Response {
		return func(string) promtest.Response { return r }
	}
	partial := func(string) promtest.Response {
		r := answer(0, queue("chat", "a", 40))
		r.Warnings = []string{"a store is down"}
		return r
	}
	cases := []struct {
		name  string
		then  func(string) promtest.Response
		after time.Duration // what has passed since; within maxAge if zero

		podA, podB, object, external outcome
	}{
		{"good", good, 0, is(40000), is(40000), is(80000), is(80000)},
		{"down, last good is fresh", say(promtest.Response{Status: 503}), 0, is(40000), is(40000), is(80000), is(80000)},
		{"down", say(promtest.Response{Status: 503}), maxAge, nothing, nothing, nothing, nothing},
		{"slow", say(promtest.Response{Delay: time.Minute}), maxAge, nothing, nothing, nothing, nothing},
		{"truncated", say(promtest.Response{Body: `{"status":"success","data":{"resultType":"vector","result":[`}), maxAge, nothing, nothing, nothing, nothing},
		{"scalar 0", say(promtest.Response{Body: `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`}), maxAge, nothing, nothing, nothing, nothing},
		{"empty", say(promtest.Response{}), maxAge, nothing, nothing, nothing, nothing},
		{"warnings", partial, maxAge, nothing, nothing, nothing, nothing},
		{"NaN", both(math.NaN()), 0, nothing, nothing, nothing, nothing},
		{"NaN in half", b(math.NaN()), 0, is(40000), nothing, nothing, nothing},
		{"+Inf in half", b(math.Inf(1)), 0, is(40000), nothing, nothing, nothing},
		{"-Inf in half", b(math.Inf(-1)), 0, is(40000), nothing, nothing, nothing},
		{"1e300 in half", b(1e300), 0, is(40000), nothing, nothing, nothing},
		{"negative", b(-40), 0, is(40000), nothing, nothing, nothing},
		{"a duplicate of zero", func(string) promtest.Response {
			return answer(0, queue("chat", "a", 40), queue("chat", "b", 40), queue("chat", "b", 0, "job", "again"))
		}, 0, is(40000), is(40000), is(80000), is(80000)},
		{"duplicates", func(string) promtest.Response {
			return answer(0, queue("chat", "a", 40), queue("chat", "b", 40), queue("chat", "b", 40, "job", "again"))
		}, 0, is(40000), is(40000), is(80000), is(80000)},
		{"stale", func(string) promtest.Response {
			return answer(2*maxAge, queue("chat", "a", 0), queue("chat", "b", 0))
		}, 0, nothing, nothing, nothing, nothing},
		{"label lost", func(string) promtest.Response {
			return answer(0, promtest.Series{Labels: map[string]string{"namespace": "chat"}, Value: 0})
		}, maxAge, nothing, nothing, nothing, nothing},
		{"half the targets missing", func(string) promtest.Response { return answer(0, queue("chat", "a", 40)) }, maxAge - patience,
			is(40000), nothing, nothing, nothing},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := promtest.New(t)
			server.Script(good)
			wait := patience
			if c.then("").Delay > 0 {
				wait = 300 * time.Millisecond // or each rule would be waited for, one after another
			}
			p := stackWaiting(t, server, wait)
			await.For(t, time.Minute, "before", func() error {
				if got := objectOf(t, p); got != is(80000) {
					return fmt.Errorf("%v", got)
				}
				return nil
			})
			asked(t, server, 2) // both answers carry over: the pods are known to report
			server.Script(c.then)
			asked(t, server, 3) // the first may be under way already, two are answered
			if c.after > 0 && c.after < maxAge {
				time.Sleep(maxAge - c.after + 100*time.Millisecond)
			}
			if c.after > 0 {
				p.now = func() time.Time { return time.Now().Add(c.after) }
			}
			check(t, p, c.podA, c.podB, c.object, c.external)
		})
	}
}

// asked waits until the rule has been queried n times more. Other rules look at
// the same series.
func asked(t *testing.T, server *promtest.Server, n int) {
	t.Helper()
	all := signal.Builtin(maxAge)
	rule := all[slices.IndexFunc(all, func(r signal.Rule) bool { return r.Name == "queue_depth" })]
	count := func() (n int) {
		for _, q := range server.Queries() {
			if query := q.PostForm.Get("query"); query == rule.Query() || query == rule.History() {
				n++
			}
		}
		return n
	}
	target := count() + n
	await.True(t, 30*time.Second, fmt.Sprintf("the rule is queried %d times more", n), func() bool { return count() >= target })
}

func check(t *testing.T, p *Provider, a, b, obj, external outcome) {
	t.Helper()
	pods := map[string]outcome{}
	list, err := p.GetMetricBySelector(t.Context(), "chat", labels.SelectorFromSet(labels.Set{"app": "vllm"}), podsInfo, all)
	if err == nil {
		if len(list.Items) == 0 {
			t.Error("Pods: an empty list is no error")
		}
		for _, i := range list.Items {
			pods[i.DescribedObject.Name] = is(i.Value.MilliValue())
		}
	}
	for name, want := range map[string]outcome{"a": a, "b": b} {
		if pods[name] != want {
			t.Errorf("Pods: %s is %v, want %v (%v)", name, pods[name], want, err)
		}
	}
	if got := objectOf(t, p); got != obj {
		t.Errorf("Object: %v, want %v", got, obj)
	}
	e, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: "queue_depth"})
	switch {
	case err != nil && external.known, err == nil && (!external.known || len(e.Items) != 1 || e.Items[0].Value.MilliValue() != external.milli):
		t.Errorf("External: %v, %v, want %v", e, err, external)
	}
}

func objectOf(t *testing.T, p *Provider) outcome {
	t.Helper()
	v, err := p.GetMetricByName(t.Context(), vllm, deployment, all)
	if err != nil {
		return nothing
	}
	return is(v.Value.MilliValue())
}

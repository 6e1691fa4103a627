package provider

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// TestNeverLie: both pods of Deployment chat/vllm have reported a queue of 40
// for a while; then something happens to Prometheus. Through the cache as
// through the tables alone (TestFaults) no API answers with less than is known
// to be there. (The HPA itself is careful about pods left out of a Pods answer;
// it cannot be about a sum.)
func TestNeverLie(t *testing.T) {
	type script = func(at time.Time) ([]signal.Sample, error)
	say := func(a ...float64) script {
		return func(at time.Time) (all []signal.Sample, err error) {
			for i, v := range a {
				all = append(all, sample(v, at, "namespace", "chat", "pod", string(rune('a'+i)))...)
			}
			return all, nil
		}
	}
	fail := func(err error) script { return func(time.Time) ([]signal.Sample, error) { return nil, err } }
	partial := &prom.PartialError{Warnings: []string{"a store is down"}}
	pods := cluster(t)
	for _, c := range []struct {
		name  string
		then  script
		since time.Duration

		known map[string]int64 // by pod
		whole int64            // of both together; -1: nothing may be said
	}{
		{"good", say(40, 40), time.Minute, map[string]int64{"a": 40, "b": 40}, 80},
		{"down, the last answer is fresh", fail(prom.ErrUnavailable), 6 * time.Second, map[string]int64{"a": 40, "b": 40}, 80},
		{"down", fail(prom.ErrUnavailable), 21 * time.Second, nil, -1},
		{"partial, the last answer is fresh", fail(partial), 6 * time.Second, map[string]int64{"a": 40, "b": 40}, 80},
		{"partial", fail(partial), 21 * time.Second, nil, -1},
		{"empty", say(), 21 * time.Second, nil, -1},
		{"half the targets missing", say(40), time.Minute, map[string]int64{"a": 40}, -1},
		{"half is out of range", say(40, -40), 6 * time.Second, map[string]int64{"a": 40}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{answer: say(40, 40)}
				p := cached(t, server, pods)
				if _, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: "queue_depth"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				server.set(c.then)
				time.Sleep(c.since)
				synctest.Wait()
				pods := map[string]int64{}
				if list, err := p.GetMetricBySelector(t.Context(), "chat", labels.SelectorFromSet(labels.Set{"app": "vllm"}), podsInfo, all); err == nil {
					for _, i := range list.Items {
						pods[i.DescribedObject.Name] = i.Value.Value()
					}
					if len(pods) == 0 {
						t.Error("Pods: an empty list is no error")
					}
				}
				if !maps.Equal(pods, c.known) {
					t.Errorf("Pods: %v, want %v", pods, c.known)
				}
				object, external := int64(-1), int64(-1)
				if v, err := p.GetMetricByName(t.Context(), vllm, deployment, all); err == nil {
					object = v.Value.Value()
				}
				if e, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: "queue_depth"}); err == nil {
					external = e.Items[0].Value.Value()
				}
				if object != c.whole || external != c.whole {
					t.Errorf("Object %d, External %d, want %d", object, external, c.whole)
				}
			})
		})
	}
}

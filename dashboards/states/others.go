package states

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/plan"
)

// scrapeServers scrapes the model servers: doubles of vLLM in the pods named so,
// whose load follows how busy their cards are.
func (r *recorder) scrapeServers(at time.Time, pods []plan.Pod) error {
	there := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if p.Node == "" || !strings.HasPrefix(p.Name, "vllm") {
			continue
		}
		name := "vllm/" + p.Key()
		there[name] = true
		r.servers[name] += busyOf(p.Key(), at) * 900 * Every.Seconds()
		families, err := parse([]byte(vllm(p, r.servers[name], at)))
		if err != nil {
			return err
		}
		r.out.scrape(at, name, labels.FromStrings("cluster", "east", "job", "vllm", "instance", p.Name+":8000",
			"namespace", p.Namespace, "pod", p.Name, "container", "main", "endpoint", "http"), families)
	}
	for name := range r.servers {
		if !there[name] {
			r.out.gone(at, name)
			delete(r.servers, name)
		}
	}
	return nil
}

// vllm is an exposition in vLLM's names.
func vllm(p *plan.Pod, tokens float64, at time.Time) string {
	busy := busyOf(p.Key(), at)
	of := `{model_name="llama",engine="0"}`
	var b strings.Builder
	for _, s := range []struct {
		name, kind string
		value      float64
	}{
		{"num_requests_running", "gauge", math.Round(30 * busy)},
		{"num_requests_waiting", "gauge", math.Max(0, math.Round(40*(busy-0.6)))},
		{"kv_cache_usage_perc", "gauge", 0.9 * busy},
		{"prompt_tokens_total", "counter", math.Round(3 * tokens)},
		{"generation_tokens_total", "counter", math.Round(tokens)},
	} {
		fmt.Fprintf(&b, "# TYPE vllm:%s %s\nvllm:%s%s %g\n", s.name, s.kind, s.name, of, s.value)
	}
	for _, s := range []struct {
		name string
		mean float64
	}{{"time_to_first_token_seconds", 0.2 + busy}, {"request_queue_time_seconds", 0.1 + 0.5*busy}} {
		count := math.Round(tokens / 300)
		fmt.Fprintf(&b, "# TYPE vllm:%s histogram\n", s.name)
		for _, le := range []float64{0.1, 0.25, 0.5, 1, 2.5, 5} {
			fmt.Fprintf(&b, "vllm:%s_bucket{model_name=\"llama\",engine=\"0\",le=\"%g\"} %g\n", s.name, le, math.Round(count*(1-math.Exp(-le/s.mean))))
		}
		fmt.Fprintf(&b, "vllm:%s_bucket{model_name=\"llama\",engine=\"0\",le=\"+Inf\"} %g\nvllm:%s_sum%s %g\nvllm:%s_count%s %g\n",
			s.name, count, s.name, of, count*s.mean, s.name, of, count)
	}
	return b.String()
}

// podStore is the adapter's view of the cluster's pods: all that run.
type podStore struct{ c *cluster }

func (podStore) Ready() error { return nil }

func (s podStore) Has(namespace, pod string) bool {
	return slices.Contains(s.Select(namespace, nil), pod)
}

// Select returns the pods of a namespace; it is asked for all of them only.
func (s podStore) Select(namespace string, _ k8slabels.Selector) []string {
	var names []string
	for _, p := range s.c.world.Sim.State.Pods {
		if p.Namespace == namespace && p.Node != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

func (podStore) Owned(string, schema.GroupKind, string) []string { return nil }

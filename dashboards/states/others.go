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

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// scrapeServers scrapes the model servers: fakes of vLLM in the pods named so, whose
// load follows their GPUs' busy ratio.
func (r *recorder) scrapeServers(at time.Time, pods []plan.Pod) error {
	there := map[string]bool{} // by pod
	for i := range pods {
		p := &pods[i]
		if p.Node == "" || !strings.HasPrefix(p.Name, "vllm") {
			continue
		}
		there[p.Key()] = true
		s := r.servers[p.Key()]
		if s == nil {
			s = &modelServer{target: labels.FromStrings("cluster", "east", "job", "vllm", "instance", p.Name+":8000",
				"namespace", p.Namespace, "pod", p.Name, "container", "main", "endpoint", "http")}
			r.servers[p.Key()] = s
		}
		s.serve(busyOf(p.Key(), at))
		page, err := parse([]byte(s.vllm()))
		if err != nil {
			return err
		}
		r.out.scrape(at, s.target, page)
	}
	for name, s := range r.servers {
		if !there[name] {
			r.out.gone(at, s.target)
			delete(r.servers, name)
		}
	}
	return nil
}

// modelServer has the counters of a fake vLLM.
type modelServer struct {
	target   labels.Labels
	busy     float64 // share of the time since the last scrape
	tokens   float64
	requests uint64
	waits    [2]observed // for the first token, in the queue
}

// observed is a histogram of waiting times.
type observed struct {
	within [len(waitBounds)]uint64
	sum    float64
}

// waitBounds are the buckets' bounds in seconds.
var waitBounds = [...]float64{0.1, 0.25, 0.5, 1, 2.5, 5}

// serve advances by one scrape. Counters only grow.
func (s *modelServer) serve(busy float64) {
	s.busy = busy
	s.tokens += busy * 900 * Every.Seconds()
	before := s.requests
	s.requests = uint64(s.tokens / 300)
	for i, mean := range []float64{0.2 + busy, 0.1 + 0.5*busy} {
		s.waits[i].add(s.requests-before, mean)
	}
}

// add observes exponentially distributed waiting times with a mean, in seconds.
func (o *observed) add(n uint64, mean float64) {
	for i, bound := range waitBounds {
		o.within[i] += uint64(math.Round(float64(n) * (1 - math.Exp(-bound/mean))))
	}
	o.sum += float64(n) * mean
}

// vllm is an exposition in vLLM's names.
func (s *modelServer) vllm() string {
	const of = `{model_name="llama",engine="0"}`
	var b strings.Builder
	for _, one := range []struct {
		read  metric.Read
		value float64
	}{
		{metric.VLLMRunning, math.Round(30 * s.busy)},
		{metric.VLLMWaiting, math.Max(0, math.Round(40*(s.busy-0.6)))},
		{metric.VLLMCacheUsage, 0.9 * s.busy},
		{metric.VLLMPromptTokens, math.Round(3 * s.tokens)},
		{metric.VLLMGenerationTokens, math.Round(s.tokens)},
	} {
		fmt.Fprintf(&b, "# TYPE %[1]s %[2]s\n%[1]s%[3]s %[4]g\n", one.read.Name, one.read.Type, of, one.value)
	}
	for i, name := range []string{metric.VLLMFirstToken.Name, metric.VLLMQueueTime.Name} {
		fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
		for k, bound := range waitBounds {
			fmt.Fprintf(&b, "%s_bucket{model_name=\"llama\",engine=\"0\",le=\"%g\"} %d\n", name, bound, s.waits[i].within[k])
		}
		fmt.Fprintf(&b, "%[1]s_bucket{model_name=\"llama\",engine=\"0\",le=\"+Inf\"} %[2]d\n%[1]s_sum%[3]s %[4]g\n%[1]s_count%[3]s %[2]d\n", name, s.requests, of, s.waits[i].sum)
	}
	return b.String()
}

// podStore is the adapter's view of the cluster's pods: all that run.
type podStore struct{ c *cluster }

func (podStore) Ready() error { return nil }

func (s podStore) Lives(namespace, pod string) (since time.Time, ok bool) {
	return time.Time{}, slices.Contains(s.Select(namespace, nil), pod)
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

func (podStore) Owned(string, schema.GroupKind, string) ([]string, error) { return nil, nil }

// Service implements provider.Pods: no metric here is about one.
func (podStore) Service(string, string) (k8slabels.Selector, bool, error) { return nil, false, nil }

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

// software is what a model server's series are called.
type software struct {
	name, labels           string
	running, waiting       metric.Read
	cache, written         metric.Read
	firstToken, timeQueued metric.Read
}

// servers are the model servers, by the namespace and the beginning of the names of their pods:
// vLLM, and SGLang under the names that Prometheus 2 stores.
var servers = map[string]software{
	"chat/vllm": {"vllm", `model_name="llama",engine="0"`, metric.VLLMRunning, metric.VLLMWaiting, metric.VLLMCacheUsage, metric.VLLMGenerationTokens,
		metric.VLLMFirstToken, metric.VLLMQueueTime},
	"research/rank": {"sglang", `model_name="rank",engine_type="unified"`, metric.SGLangRunning.Escaped(), metric.SGLangQueued.Escaped(), metric.SGLangCacheUsage.Escaped(),
		metric.SGLangGenerationTokens.Escaped(), metric.SGLangFirstToken.Escaped(), metric.SGLangQueueTime.Escaped()},
}

// scrapeServers scrapes the model servers: fakes whose load follows their GPUs' busy ratio.
func (r *recorder) scrapeServers(at time.Time, pods []plan.Pod) error {
	there := map[string]bool{} // by pod
	for i := range pods {
		p := &pods[i]
		kind, _, _ := strings.Cut(p.Key(), "-")
		of, ok := servers[kind]
		if p.Node == "" || !ok {
			continue
		}
		there[p.Key()] = true
		s := r.servers[p.Key()]
		if s == nil {
			s = &modelServer{software: of, target: labels.FromStrings("cluster", "east", "job", of.name, "instance", p.Name+":8000",
				"namespace", p.Namespace, "pod", p.Name, "container", "main", "endpoint", "http")}
			r.servers[p.Key()] = s
		}
		s.serve(busyOf(p.Key(), at))
		page, err := parse([]byte(s.page()))
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

// modelServer has the counters of a fake.
type modelServer struct {
	software
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

// page is the server's exposition.
func (s *modelServer) page() string {
	var b strings.Builder
	add := func(name, more string, value float64) { fmt.Fprintf(&b, "%s{%s%s} %g\n", name, s.labels, more, value) }
	add(s.running.Name, "", math.Round(30*s.busy))
	add(s.waiting.Name, "", math.Max(0, math.Round(40*(s.busy-0.6))))
	add(s.cache.Name, "", 0.9*s.busy)
	add(s.written.Name, "", math.Round(s.tokens))
	for i, r := range []metric.Read{s.firstToken, s.timeQueued} {
		for k, bound := range waitBounds {
			add(r.Name+"_bucket", fmt.Sprintf(`,le="%g"`, bound), float64(s.waits[i].within[k]))
		}
		add(r.Name+"_bucket", `,le="+Inf"`, float64(s.requests))
		add(r.Name+"_sum", "", s.waits[i].sum)
		add(r.Name+"_count", "", float64(s.requests))
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

package states

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// software has the names of a model server's series.
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
	"research/rank": {"sglang", `model_name="rank",engine_type="unified"`, escaped(metric.SGLangRunning), escaped(metric.SGLangQueued), escaped(metric.SGLangCacheUsage),
		escaped(metric.SGLangGenerationTokens), escaped(metric.SGLangFirstToken), escaped(metric.SGLangQueueTime)},
}

func escaped(r metric.Read) metric.Read { r.Name = metric.Escape(r.Name); return r }

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
	target labels.Labels
	busy   float64 // share of the time since the last scrape
	tokens float64
	fast   float64 // requests that waited for less than half a second
}

// serve advances by one scrape. Counters only grow.
func (s *modelServer) serve(busy float64) {
	s.busy = busy
	s.tokens += busy * 900 * Every.Seconds()
	s.fast += (1 - busy) * busy * 3 * Every.Seconds()
}

// page is the server's exposition. A request has 300 tokens.
func (s *modelServer) page() string {
	var b strings.Builder
	add := func(name, more string, value float64) { fmt.Fprintf(&b, "%s{%s%s} %g\n", name, s.labels, more, value) }
	add(s.running.Name, "", math.Round(30*s.busy))
	add(s.waiting.Name, "", math.Max(0, math.Round(40*(s.busy-0.6))))
	if s.name == "sglang" { // with --enable-priority-scheduling: the number of each priority beside the total
		add(s.running.Name, `,priority="0"`, math.Round(30*s.busy))
	}
	add(s.cache.Name, "", 0.9*s.busy)
	add(s.written.Name, "", math.Round(s.tokens))
	requests := math.Round(s.tokens / 300)
	for _, r := range []metric.Read{s.firstToken, s.timeQueued} {
		add(r.Name+"_bucket", `,le="0.5"`, math.Round(s.fast))
		add(r.Name+"_bucket", `,le="2"`, requests)
		add(r.Name+"_bucket", `,le="+Inf"`, requests)
		add(r.Name+"_sum", "", 0.6*requests)
		add(r.Name+"_count", "", requests)
	}
	return b.String()
}

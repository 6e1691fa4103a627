package model

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// engineLabel: one engine a server, without data parallelism.
const engineLabel = "0"

type descs struct {
	running, waiting, kv            *prometheus.Desc
	firstToken, queueTime, endToEnd *prometheus.Desc
	prompted, generated, finished   *prometheus.Desc
}

func newDescs() descs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("vllm:"+name, help, append([]string{"model_name", "engine"}, labels...), nil)
	}
	return descs{
		running:    desc("num_requests_running", "Number of requests in model execution batches."),
		waiting:    desc("num_requests_waiting", "Number of requests waiting to be processed."),
		kv:         desc("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
		firstToken: desc("time_to_first_token_seconds", "Histogram of time to first token in seconds."),
		queueTime:  desc("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."),
		endToEnd:   desc("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."),
		prompted:   desc("prompt_tokens_total", "Number of prefill tokens processed."),
		generated:  desc("generation_tokens_total", "Number of generation tokens processed."),
		finished:   desc("request_success_total", "Count of successfully processed requests.", "finished_reason"),
	}
}

// metrics of one server, in vLLM's names. Durations are in traffic time.
func (d descs) metrics(model string, s *server) ([]prometheus.Metric, error) {
	var out []prometheus.Metric
	add := func(m prometheus.Metric, err error) error {
		if err != nil {
			return fmt.Errorf("metrics of server %s: %w", s.id, err)
		}
		out = append(out, m)
		return nil
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for _, v := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{d.running, gauge, float64(len(s.running))},
		{d.waiting, gauge, float64(len(s.waiting))},
		{d.kv, gauge, s.usage()},
		{d.prompted, counter, float64(s.prompted)},
		{d.generated, counter, float64(s.generated)},
	} {
		if err := add(prometheus.NewConstMetric(v.desc, v.kind, v.value, model, engineLabel)); err != nil {
			return nil, err
		}
	}
	if err := add(prometheus.NewConstMetric(d.finished, counter, float64(s.finished), model, engineLabel, "stop")); err != nil {
		return nil, err
	}
	for _, h := range []struct {
		desc *prometheus.Desc
		hist *histogram
	}{{d.firstToken, &s.firstToken}, {d.queueTime, &s.queueTime}, {d.endToEnd, &s.endToEnd}} {
		total, le := h.hist.cumulated()
		if err := add(prometheus.NewConstHistogram(h.desc, total, h.hist.sum, le, model, engineLabel)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

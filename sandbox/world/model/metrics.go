package model

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// vLLM's own bucket bounds, in seconds.
var (
	firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	requestBounds    = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// metrics of one server, in vLLM's names. Durations are in traffic time. They read the
// server when they are gathered.
type metrics struct {
	*prometheus.Registry
	prompted, generated, finished   prometheus.Counter
	firstToken, queueTime, endToEnd prometheus.Histogram
}

func newMetrics(model string, s *server) metrics {
	m := metrics{Registry: prometheus.NewRegistry()}
	// One engine a server, without data parallelism.
	with := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"model_name": model, "engine": "0"}, m))
	gauge := func(name, help string, value func() float64) {
		with.NewGaugeFunc(prometheus.GaugeOpts{Name: "vllm:" + name, Help: help}, value)
	}
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: "vllm:" + name, Help: help, ConstLabels: labels})
	}
	histogram := func(name, help string, bounds []float64) prometheus.Histogram {
		return with.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: bounds})
	}
	gauge("num_requests_running", "Number of requests in model execution batches.", func() float64 { return float64(len(s.running)) })
	gauge("num_requests_waiting", "Number of requests waiting to be processed.", func() float64 { return float64(len(s.waiting)) })
	gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", s.usage)
	m.prompted = counter("prompt_tokens_total", "Number of prefill tokens processed.", nil)
	m.generated = counter("generation_tokens_total", "Number of generation tokens processed.", nil)
	m.finished = counter("request_success_total", "Count of successfully processed requests.", prometheus.Labels{"finished_reason": "stop"})
	m.firstToken = histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", firstTokenBounds)
	m.queueTime = histogram("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", requestBounds)
	m.endToEnd = histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", requestBounds)
	return m
}

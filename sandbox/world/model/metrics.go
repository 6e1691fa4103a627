package model

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// vLLM's own bucket bounds, in seconds.
var (
	firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	requestBounds    = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// metrics are one server's metrics under vLLM's names. Durations are in traffic time. The server is read when
// the metrics are gathered. Names, labels, buckets and the moment of counting were compared with
// vllm/v1/metrics/loggers.py and stats.py on 2026-11-28: a prompt counts with its first token, and the queue
// time when the request ends.
type metrics struct {
	*prometheus.Registry
	prompted, generated             prometheus.Counter
	firstToken, queueTime, endToEnd prometheus.Histogram
}

func newMetrics(model string, s *server) metrics {
	m := metrics{Registry: prometheus.NewRegistry()}
	// A server has one engine, without data parallelism.
	with := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{metric.LabelModelName: model, metric.LabelEngine: "0"}, m))
	gauge := func(r metric.Read, value func() float64) {
		with.NewGaugeFunc(prometheus.GaugeOpts{Name: r.Name, Help: r.Help}, value)
	}
	counter := func(r metric.Read) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: r.Name, Help: r.Help})
	}
	histogram := func(r metric.Read, bounds []float64) prometheus.Histogram {
		return with.NewHistogram(prometheus.HistogramOpts{Name: r.Name, Help: r.Help, Buckets: bounds})
	}
	gauge(metric.VLLMRunning, func() float64 { return float64(len(s.running)) })
	gauge(metric.VLLMWaiting, func() float64 { return float64(len(s.waiting)) })
	gauge(metric.VLLMCacheUsage, s.usage)
	m.prompted, m.generated = counter(metric.VLLMPromptTokens), counter(metric.VLLMGenerationTokens)
	m.firstToken, m.queueTime, m.endToEnd = histogram(metric.VLLMFirstToken, firstTokenBounds), histogram(metric.VLLMQueueTime, requestBounds), histogram(metric.VLLMLatency, requestBounds)
	return m
}

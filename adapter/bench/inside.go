package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// inside is an adapter's own histogram of request durations, authentication and
// authorization included. Both adapters have it from the API server library.
type inside struct {
	count, quick uint64  // quick: within goalLatency
	sum          float64 // seconds
}

// inside sums both metrics APIs.
func (s *subject) inside(ctx context.Context) (found inside, err error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return found, fmt.Errorf("reading the metrics of %s: %w", s.title, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return found, fmt.Errorf("reading the metrics of %s: %w", s.title, err)
	}
	for _, m := range families["apiserver_request_duration_seconds"].GetMetric() {
		if group := label(m, "group"); group != "custom.metrics.k8s.io" && group != "external.metrics.k8s.io" || label(m, "resource") == "" {
			continue // discovery and other APIs
		}
		h := m.GetHistogram()
		found.count += h.GetSampleCount()
		found.sum += h.GetSampleSum()
		for _, b := range h.GetBucket() {
			if math.Abs(b.GetUpperBound()-goalLatency.Seconds()) < 1e-9 {
				found.quick += b.GetCumulativeCount()
			}
		}
	}
	return found, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// since returns the increase since an earlier reading.
func (h inside) since(before inside) inside {
	return inside{count: h.count - before.count, quick: h.quick - before.quick, sum: h.sum - before.sum}
}

func (h inside) mean() time.Duration {
	return time.Duration(h.sum / max(1, float64(h.count)) * float64(time.Second))
}

// share of requests within the goal; 1 without requests.
func (h inside) share() float64 {
	if h.count == 0 {
		return 1
	}
	return float64(h.quick) / float64(h.count)
}

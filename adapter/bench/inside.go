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

// inside is an adapter's own histogram of how long requests took in it,
// authentication and authorization included. Both adapters have it from the
// API server library.
type inside struct {
	count   uint64
	sum     float64            // seconds
	buckets map[float64]uint64 // cumulative, by upper bound in seconds
}

// inside reads the histogram of one API group.
func (s *subject) inside(ctx context.Context) (map[string]inside, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", s.title, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", s.title, err)
	}
	found := map[string]inside{}
	for _, m := range families["apiserver_request_duration_seconds"].GetMetric() {
		group := label(m, "group")
		if label(m, "resource") == "" {
			continue // discovery
		}
		h := found[group]
		if h.buckets == nil {
			h.buckets = map[float64]uint64{}
		}
		h.count += m.GetHistogram().GetSampleCount()
		h.sum += m.GetHistogram().GetSampleSum()
		for _, b := range m.GetHistogram().GetBucket() {
			h.buckets[b.GetUpperBound()] += b.GetCumulativeCount()
		}
		found[group] = h
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

// since returns what was added after an earlier reading.
func (h inside) since(before inside) inside {
	d := inside{count: h.count - before.count, sum: h.sum - before.sum, buckets: map[float64]uint64{}}
	for bound, n := range h.buckets {
		d.buckets[bound] = n - before.buckets[bound]
	}
	return d
}

func (h inside) mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count) * float64(time.Second))
}

// within is the share of requests that took no longer; false where there were
// none or the histogram has no such bound.
func (h inside) within(limit time.Duration) (float64, bool) {
	for bound, n := range h.buckets {
		if math.Abs(bound-limit.Seconds()) < 1e-9 && h.count > 0 {
			return float64(n) / float64(h.count), true
		}
	}
	return 0, false
}

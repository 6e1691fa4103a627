package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// rounds is what the program says about its rounds since it began.
type rounds struct {
	count   uint64
	seconds float64 // of all phases together
}

// loops follows how long rounds take.
type loops struct {
	url string

	mu      sync.Mutex
	last    rounds
	longest float64 // seconds
	of      string  // how the longest was made up
	phases  map[string]float64
}

// readEvery is how often the histogram is read while pods are being served. Each reading
// costs the program some milliseconds, which are among those that are measured.
const readEvery = 400 * time.Millisecond

// follow reads until ctx ends, and returns what was longest.
func (l *loops) follow(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		l.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *loops) read(ctx context.Context) {
	families, err := scrape(ctx, l.url)
	if err != nil {
		return // it will be asked again
	}
	now, phases := roundsOf(families)
	l.mu.Lock()
	defer l.mu.Unlock()
	if took := now.seconds - l.last.seconds; l.phases != nil && now.count > l.last.count && took > l.longest {
		l.longest, l.of = took, ""
		for _, phase := range []string{"observe", "plan", "act", "publish"} {
			l.of += fmt.Sprintf(" %s %.3f", phase, phases[phase]-l.phases[phase])
		}
	}
	l.last, l.phases = now, phases
}

func roundsOf(families map[string]*dto.MetricFamily) (rounds, map[string]float64) {
	var r rounds
	phases := map[string]float64{}
	for _, m := range families[metric.AutoscalerRoundSeconds.Name].GetMetric() {
		h := m.GetHistogram()
		r.seconds += h.GetSampleSum()
		r.count = max(r.count, h.GetSampleCount())
		for _, label := range m.GetLabel() {
			phases[label.GetValue()] = h.GetSampleSum()
		}
	}
	return r, phases
}

func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // read so often, packing it would be a part of what is measured
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

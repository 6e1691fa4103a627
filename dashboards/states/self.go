package states

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
)

// self is an exporter's page about itself: of one that ran for a moment in real time,
// over a recording of one GPU. The exporters of a state run in simulated time, below the
// part that keeps these series. Names, types and labels are the exporter's; how often
// and how long it read is a fake's, since a busy machine reads later and drops what is
// stale by then.
type self struct{ page []byte }

// running is how long every exporter had run when a recording begins.
const running = 10 * time.Minute

func newSelf() (*self, error) {
	source, err := replay.NewSource([]replay.Frame{{GPUs: []replay.Entity{{
		Entity: collect.Entity{UUID: "GPU-self", Model: "NVIDIA L40S", DriverVersion: "580.65.06"},
		Values: map[string]any{"DCGM_FI_DEV_GPU_UTIL": 40.0},
	}}}}, nil)
	if err != nil {
		return nil, err
	}
	n, err := node.New(node.Options{Name: "self", Source: source, Interval: node.MinInterval})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	// Its page about itself is made once a second.
	s := &self{}
	wait, stop := context.WithTimeoutCause(ctx, time.Minute, errors.New("the exporter's source is not up after a minute"))
	defer stop()
	return s, await.Until(wait, func(context.Context) error {
		if s.page, err = scraped(n); err != nil {
			return await.Final(err)
		}
		up, err := s.up()
		if err == nil && !up {
			return errors.New("not up")
		}
		return await.Final(err)
	})
}

func scraped(n *node.Node) ([]byte, error) {
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("scraping the exporter: %d %s", w.Code, w.Body)
	}
	return w.Body.Bytes(), nil
}

// up reports whether the source answers, by the page.
func (s *self) up() (bool, error) {
	families, err := parse(s.page)
	return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
		return f.GetName() == metric.ExporterUp.Name && f.GetMetric()[0].GetGauge().GetValue() == 1
	}), err
}

// expose returns the families about an exporter that serves so many series: it has
// read once for each scrape, and nothing was left out.
func (s *self) expose(at time.Time, series int) ([]*dto.MetricFamily, error) {
	all, err := parse(s.page)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "gpuscale_exporter_") })
	passes := uint64(at.Sub(begin.Add(-running)) / interval)
	for _, f := range own {
		for _, m := range f.GetMetric() {
			switch {
			case m.Histogram != nil:
				m.Histogram.SampleCount = &passes
			case f.GetName() == metric.ExporterSeries.Name:
				m.Gauge.Value = new(float64(series))
			case f.GetName() == metric.ExporterReads.Name && m.GetLabel()[0].GetValue() == "ok":
				m.Counter.Value = new(float64(passes))
			case m.Counter != nil:
				m.Counter.Value = new(0.0)
			}
		}
	}
	return steadied(own), nil
}

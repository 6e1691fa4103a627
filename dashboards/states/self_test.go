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

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// self is an exporter's page about itself: of one that ran for a moment in real time,
// over a recording of one GPU. The exporters of a state run in simulated time, below the
// part that keeps these series. Names, types and labels are the exporter's; how often
// and how long it read is a fake's, since a busy machine reads later and drops what is
// stale by then.
type self struct{ page []memstore.Exposed }

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
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			return await.Final(fmt.Errorf("scraping the exporter: %d %s", w.Code, w.Body))
		}
		page, err := parse(w.Body.Bytes())
		if err != nil {
			return await.Final(err)
		}
		if !slices.ContainsFunc(page, func(e memstore.Exposed) bool { return nameOf(e) == metric.ExporterUp.Name && e.Value == 1 }) {
			return errors.New("not up")
		}
		s.page = slices.DeleteFunc(page, func(e memstore.Exposed) bool { return !strings.HasPrefix(nameOf(e), "gpuscale_exporter_") })
		return nil
	})
}

func nameOf(e memstore.Exposed) string { return e.Labels.Get(labels.MetricName) }

// expose returns the series about an exporter that serves so many series: it has read once
// for each scrape, and nothing was left out.
func (s *self) expose(at time.Time, series int) []memstore.Exposed {
	passes := float64(at.Sub(begin.Add(-running)) / interval)
	own := slices.Clone(s.page)
	for i := range own {
		e := &own[i]
		name := nameOf(*e)
		switch _, _, part := histogram(name); {
		case part, name == metric.ExporterReads.Name && e.Labels.Get(metric.LabelResult) == "ok":
			e.Value = passes // of a histogram the count, by which steadied sets the rest
		case name == metric.ExporterSeries.Name:
			e.Value = float64(series)
		case strings.HasSuffix(name, "_total"):
			e.Value = 0
		}
	}
	return steadied(own)
}

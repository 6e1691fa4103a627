package states

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

// self is an exporter that runs in real time over a recording of one card. What it
// says about itself is what every exporter of a state says: those run in simulated
// time, below the part that keeps these series.
type self struct {
	node *node.Node
	stop func()
}

func newSelf() (*self, error) {
	recording, err := replay.Parse("self", strings.NewReader("card 0 uuid=GPU-self model=\"NVIDIA L40S\" driver=580.65.06\n0 DCGM_FI_DEV_GPU_UTIL=40\n"))
	if err != nil {
		return nil, err
	}
	n, err := node.New(node.Options{Name: "self", Source: replay.NewSource(recording, replay.Options{}), Interval: node.MinInterval})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	s := &self{node: n, stop: func() { cancel(); <-done }}
	return s, s.await()
}

// await waits until its own page, made once a second, says that the source is up.
func (s *self) await() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		families, err := s.expose()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return f.GetName() == "gpuscale_exporter_source_up" && f.GetMetric()[0].GetGauge().GetValue() == 1
		}) {
			return nil
		}
	}
	return fmt.Errorf("the exporter's source is not up after a minute")
}

// expose returns the families about the exporter itself.
func (s *self) expose() ([]*dto.MetricFamily, error) {
	w := httptest.NewRecorder()
	s.node.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("scraping the exporter: %d %s", w.Code, w.Body)
	}
	all, err := parse(w.Body.Bytes())
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "gpuscale_exporter_") }), err
}

package observe

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// aging is a fake of Prometheus with one exporter's attribution of a given age.
type aging struct {
	age   float64
	err   error
	asked int
}

func (a *aging) Query(_ context.Context, query string, _ time.Time) (prom.Vector, error) {
	if !strings.HasPrefix(query, "gpu_attribution_age_seconds") {
		return nil, a.err
	}
	a.asked++
	return prom.Vector{{Labels: prom.FromMap(map[string]string{"node": "n"}), Value: a.age, Time: start}}, a.err
}

// TestIdlePolling: while idle, Prometheus is queried once per third of the maximum age, but as often
// as ever when answers would become too old, or fail.
func TestIdlePolling(t *testing.T) {
	for name, each := range map[string]struct {
		prometheus aging
		idle       bool
		asked      int // within 61 s
	}{
		"as ever":            {aging{age: 5}, false, 31},
		"idle":               {aging{age: 5}, true, 7},
		"nearly too old":     {aging{age: 21}, true, 31},
		"too old already":    {aging{age: 100}, true, 7},
		"it does not answer": {aging{age: 5, err: prom.ErrUnavailable}, true, 31},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPrometheus(&each.prometheus, nil, 2*time.Second, slog.New(slog.DiscardHandler))
			p.AskRarely(30*time.Second, func() bool { return each.idle })
			ctx, stop := context.WithTimeout(t.Context(), 61*time.Second)
			defer stop()
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		if each.prometheus.asked != each.asked {
			t.Errorf("%s: asked %d times, want %d", name, each.prometheus.asked, each.asked)
		}
	}
}

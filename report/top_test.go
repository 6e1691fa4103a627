package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// looks is a fake with different answers for each repetition of a watch, which starts
// with the query for the spelling of labels.
type looks struct {
	query.Prometheus
	n     int
	fails map[int]error // by repetition, from 1
	last  func()
	end   int
}

func (l *looks) Query(ctx context.Context, promql string, _ time.Time) (prom.Vector, error) {
	if strings.HasPrefix(promql, "count(gpu_held{") {
		l.n++
		if l.n == l.end {
			l.last()
		}
	}
	if err := l.fails[l.n]; err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.Prometheus.Query(ctx, promql, storyEnd)
}

func watched(t *testing.T, form string, l *looks) (out, errs string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.last = cancel
	tick := make(chan time.Time)
	go func() {
		for ctx.Err() == nil {
			select {
			case tick <- time.Time{}:
			case <-ctx.Done():
			}
		}
	}()
	var o, e bytes.Buffer
	err = topOptions{form: form, watch: true, out: &o, errs: &e}.again(ctx, l, tick)
	return o.String(), e.String(), err
}

// TestWatch repeats over an unreachable Prometheus and a missing exporter until it is
// interrupted, which is not an error. Errors go to standard error, so that YAML and JSON
// stay valid.
func TestWatch(t *testing.T) {
	l := &looks{Prometheus: minutes().Prometheus, fails: map[int]error{2: prom.ErrUnavailable}, end: 4}
	out, errs, err := watched(t, "yaml", l)
	if err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
	if n := strings.Count(out, "---\n"); n != 2 || strings.Contains(out, "unavailable") {
		t.Errorf("%d documents, want those of looks 1 and 3", n)
	}
	if !strings.Contains(errs, "unavailable") {
		t.Errorf("the outage of Prometheus is not reported: %q", errs)
	}
	if _, errs, err = watched(t, "table", &looks{Prometheus: newPrometheus(), end: 3}); err != nil || strings.Count(errs, "is gpuscale-exporter scraped") != 2 {
		t.Errorf("without an exporter: %v, %q", err, errs)
	}
	denied := errors.New("HTTP 401")
	if _, _, err = watched(t, "table", &looks{Prometheus: minutes().Prometheus, fails: map[int]error{2: denied}, end: 5}); !errors.Is(err, denied) {
		t.Errorf("a refused credential ends it, not %v", err)
	}
}

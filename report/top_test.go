package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/top"
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
	return l.Prometheus.Query(ctx, promql, fixture.StoryEnd)
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
	if _, errs, err = watched(t, "table", &looks{Prometheus: fixture.New(), end: 3}); err != nil || strings.Count(errs, "is gpuscale-exporter scraped") != 2 {
		t.Errorf("without an exporter: %v, %q", err, errs)
	}
	denied := errors.New("HTTP 401")
	if _, _, err = watched(t, "table", &looks{Prometheus: minutes().Prometheus, fails: map[int]error{2: denied}, end: 5}); !errors.Is(err, denied) {
		t.Errorf("a refused credential ends it, not %v", err)
	}
}

// TestTopOnRecordedStates lays out five clusters recorded from the real exporter, with
// and without honor_labels, which must not make a difference.
func TestTopOnRecordedStates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording the states takes a while")
	}
	for _, s := range recorded() {
		var tables []string
		for _, honor := range []bool{true, false} {
			p := fixture.Over(s.Storage(honor))
			d := query.Dialect{ExporterMoved: !honor}
			var answers []prom.Vector
			for _, q := range top.Questions(d) {
				v, err := p.Query(t.Context(), q, s.End())
				if err != nil {
					t.Fatal(s.Name, err)
				}
				answers = append(answers, v)
			}
			rows, _ := top.Rows(answers, d, "")
			if (len(rows) == 0) != (s.Name == states.Empty || s.Name == states.Down) {
				t.Errorf("%s: %d rows", s.Name, len(rows))
			}
			var b bytes.Buffer
			if err := top.Write(&b, rows, "table"); err != nil {
				t.Fatal(err)
			}
			tables = append(tables, b.String())
		}
		if tables[0] != tables[1] {
			t.Errorf("%s: with honor_labels\n%s\nwithout\n%s", s.Name, tables[0], tables[1])
		}
		t.Logf("%s:\n%s", s.Name, tables[0])
	}
}

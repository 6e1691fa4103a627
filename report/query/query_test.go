package query_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
)

var until = time.Date(2026, 3, 10, 11, 22, 33, 0, time.UTC)

// TestWindow: steps grow with the window, whose bounds are multiples of the coarse step.
func TestWindow(t *testing.T) {
	for since, want := range map[time.Duration]string{
		10 * time.Minute: "15s 15s", 24 * time.Hour: "15s 5m0s", 7 * 24 * time.Hour: "5m0s 25m0s", 30 * 24 * time.Hour: "5m0s 1h5m0s", 400 * 24 * time.Hour: "2h5m0s 14h35m0s",
	} {
		w := windowOf(t, since)
		if got := fmt.Sprint(w.Step, " ", w.Coarse); got != want {
			t.Errorf("%s: steps %s, want %s", since, got, want)
		}
		if w.Coarse%w.Step != 0 || w.Until.Unix()%int64(w.Coarse.Seconds()) != 0 || w.From.Unix()%int64(w.Coarse.Seconds()) != 0 || w.Until.After(until) {
			t.Errorf("%s: %s to %s is not on steps of %s", since, w.From, w.Until, w.Coarse)
		}
	}
	for _, since := range []time.Duration{0, -time.Hour, time.Second, 401 * 24 * time.Hour} {
		if _, err := query.NewWindow(until, since); err == nil {
			t.Errorf("%s was taken", since)
		}
	}
}

// TestNoStepFollowsTheClock: loads begin by the clock. So steps longer than the five minutes of a rate fall into each
// five minutes of an hour equally often, in any window and with any number of nodes.
func TestNoStepFollowsTheClock(t *testing.T) {
	var windows []query.Window
	for days := time.Duration(1); days <= 400; days++ {
		windows = append(windows, windowOf(t, days*24*time.Hour))
	}
	for _, nodes := range []float64{300, 1250, 20000} {
		s := &server{limit: 24 * time.Hour, instant: func(promql string) (prom.Vector, bool, error) {
			return prom.Vector{{Value: nodes}}, strings.HasPrefix(promql, "count(count by"), nil
		}}
		for _, days := range []time.Duration{7, 30, 90} {
			a, err := query.Run(t.Context(), s, windowOf(t, days*24*time.Hour), query.Options{})
			require.NoError(t, err)
			windows = append(windows, a.Window)
		}
	}
	for _, w := range windows {
		if w.Coarse%w.Ledger != 0 || w.Ledger%w.Step != 0 {
			t.Fatalf("%s: steps %s, %s, %s do not divide each other", w.Length(), w.Step, w.Ledger, w.Coarse)
		}
		for _, step := range []time.Duration{w.Step, w.Ledger, w.Coarse} {
			g, met := w.Grid(step), make([]int, 12)
			for i := 1; i <= g.N; i++ {
				met[g.At(i).Minute()/5]++
			}
			if step > 5*time.Minute && slices.Max(met)-slices.Min(met) > 1 {
				t.Errorf("%s in steps of %s: how often it meets each five minutes of an hour: %v", w.Length(), step, met)
			}
		}
	}
}

// windowOf is the window of this length that ends at until.
func windowOf(t *testing.T, since time.Duration) query.Window {
	t.Helper()
	w, err := query.NewWindow(until, since)
	require.NoError(t, err)
	return w
}

// TestEveryQueryParses in each dialect, with any matcher.
func TestEveryQueryParses(t *testing.T) {
	w := windowOf(t, 30*24*time.Hour)
	p := parser.NewParser(parser.Options{})
	for _, d := range []query.Dialect{{}, {ExporterMoved: true, AutoscalerMoved: true}, {Match: `cluster="a%s\"{}"`}} {
		asks := d.Asks(w, query.FromExporter, query.FromAutoscaler, query.FromServers)
		ids := map[query.ID]bool{}
		for _, a := range asks {
			if _, err := p.ParseExpr(strings.ReplaceAll(a.PromQL, "PIECE", "1h")); err != nil {
				t.Errorf("%s: %v\n%s", a.ID, err, a.PromQL)
			}
			if a.What == "" || ids[a.ID] {
				t.Errorf("%s has no text, or is there twice", a.ID)
			}
			ids[a.ID] = true
			if d.Match != "" && strings.Count(a.PromQL, d.Match) == 0 {
				t.Errorf("%s does not match %s", a.ID, d.Match)
			}
		}
	}
}

// server is a fake that counts requests, and refuses ranges of more than its limit.
type server struct {
	limit time.Duration
	fail  error
	gone  bool // after the failure
	// instant answers some instant queries in place of the server; may be nil.
	instant func(promql string) (answer prom.Vector, is bool, err error)
	about   string // the failing query; gpu_xid for none
	times   int    // how often it fails; 0 for always
	mu      sync.Mutex
	failed  int
	ranges  []string
	nodes   int // requests about nodes
}

func (s *server) Query(_ context.Context, promql string, at time.Time) (prom.Vector, error) {
	if s.instant != nil {
		if answer, is, err := s.instant(promql); is {
			return answer, err
		}
	}
	if strings.HasPrefix(promql, "count(present_over_time(gpu_info[") {
		return prom.Vector{{Value: 8}}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone && s.failed > 0 {
		return nil, s.fail
	}
	return nil, nil
}

func (s *server) Range(_ context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error) {
	if s.fail != nil && strings.Contains(promql, cmp.Or(s.about, "gpu_xid")) {
		s.mu.Lock()
		s.failed++
		over := s.times > 0 && s.failed > s.times
		s.mu.Unlock()
		if !over {
			return nil, s.fail
		}
	}
	if to.Sub(from) > s.limit {
		return nil, fmt.Errorf("%w: HTTP 422: query processing would load too many samples into memory", prom.ErrBadQuery)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(promql, "count by (node, model)") {
		s.nodes++
	}
	var lines []prom.Line
	for _, side := range sides {
		l := prom.Line{Labels: prom.FromMap(map[string]string{"side": side})}
		for t := from; !t.After(to); t = t.Add(step) {
			l.Points = append(l.Points, prom.Point{Time: t, Value: 1})
		}
		lines = append(lines, l)
	}
	for t := from; !t.After(to); t = t.Add(step) {
		if strings.HasPrefix(promql, "count by (node, model)") {
			s.ranges = append(s.ranges, t.UTC().Format(time.RFC3339))
		}
	}
	return lines, nil
}

// sides are the lines of each of the server's answers, the same for all queries, as those of allocation are.
var sides = []string{"left", "right"}

// TestPieces: a long window is queried in pieces, a piece that is too large in halves, and each moment once.
func TestPieces(t *testing.T) {
	w := windowOf(t, 3*24*time.Hour)
	s := &server{limit: 7 * time.Hour}
	var last, all int
	a, err := query.Run(t.Context(), s, w, query.Options{Progress: func(done, n int) { last, all = done, n }})
	require.NoError(t, err)
	if last != all || all == 0 {
		t.Errorf("progress ended at %d of %d", last, all)
	}
	for id, lines := range a.Lines {
		if id == query.MemoryP99 || id == query.UseP95 || id == query.InstUseP95 {
			continue
		}
		if len(lines) != len(sides) {
			t.Errorf("%s: %d lines", id, len(lines))
			continue
		}
		for i, l := range lines {
			if side := l.Labels.Get("side"); side != sides[i] {
				t.Errorf("%s: line %d is the %s one", id, i, side)
			}
			points := l.Points
			if !points[0].Time.Equal(a.Window.From) || !points[len(points)-1].Time.Equal(a.Window.Until) {
				t.Errorf("%s: from %s to %s", id, points[0].Time, points[len(points)-1].Time)
			}
			for i := 1; i < len(points); i++ {
				if d := points[i].Time.Sub(points[i-1].Time); d != points[1].Time.Sub(points[0].Time) {
					t.Fatalf("%s: %s after %s", id, d, points[i-1].Time)
				}
			}
		}
	}
	slices.Sort(s.ranges)
	if n := len(s.ranges); n == 0 || len(slices.Compact(s.ranges)) != n {
		t.Errorf("a moment was asked for twice, or none was")
	}
}

// TestFailures: a query that is refused or takes too long is a problem by itself; a partial answer is no answer; an
// unreachable Prometheus ends the run.
func TestFailures(t *testing.T) {
	w := windowOf(t, 2*time.Hour)
	late := fmt.Errorf("%w: %w", prom.ErrUnavailable, context.DeadlineExceeded)
	for _, fail := range []error{prom.ErrBadQuery, &prom.PartialError{Warnings: []string{"a store is down"}}, late} {
		a, err := query.Run(t.Context(), &server{limit: 24 * time.Hour, fail: fail}, w, query.Options{})
		if err != nil || !slices.Equal(a.Unanswered(), []query.ID{query.XIDs}) || len(a.Lines[query.XIDs]) != 0 {
			t.Errorf("%v: %v, %v", fail, err, a.Problems)
		}
	}
	if _, err := query.Run(t.Context(), &server{limit: 24 * time.Hour, fail: prom.ErrUnavailable, gone: true}, w, query.Options{}); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	for alone, theirs := range map[string]bool{"": false, "DCGM_FI_DEV_GPU_TEMP": true, "DCGM_FI_DEV_GPU_TEMP_CELSIUS": true} {
		s := &server{instant: func(promql string) (prom.Vector, bool, error) {
			if theirs && (strings.Contains(promql, alone+"[") || strings.Contains(promql, alone+"{")) {
				return prom.Vector{{Value: 8}}, true, nil
			}
			return nil, true, nil
		}}
		if _, err := query.Run(t.Context(), s, w, query.Options{}); !errors.Is(err, query.ErrNoData) || strings.Contains(err.Error(), "those of dcgm-exporter are there") != theirs {
			t.Errorf("with %q alone: %v, want no data, and whose there is", alone, err)
		}
	}
}

// TestPatience: a query that may succeed a moment later is repeated, one that took all its time is not, and one that is
// lost twice is dropped.
func TestPatience(t *testing.T) {
	w := windowOf(t, 10*24*time.Hour)
	busy := fmt.Errorf("%w: HTTP 503: no reason given", prom.ErrUnavailable)
	late := fmt.Errorf("%w: HTTP 503: timeout query timed out in expression evaluation", prom.ErrUnavailable)
	run := func(s *server) query.Answers {
		t.Helper()
		s.limit = 24 * time.Hour
		a, err := query.Run(t.Context(), s, w, query.Options{Concurrency: 1, Pause: time.Nanosecond})
		require.NoError(t, err)
		return a
	}
	if a := run(&server{fail: busy, times: 2}); len(a.Problems) > 0 {
		t.Errorf("busy for a moment: %v", a.Problems)
	}
	s := &server{fail: late}
	a := run(s)
	if s.failed != 2 {
		t.Errorf("of ten pieces %d were tried, want 2", s.failed)
	}
	// The two queries that were tried are one problem, and the others that were not tried another.
	if len(a.Problems) != 2 || a.Problems[0].ID != query.XIDs || !a.Problems[0].From.Equal(a.Window.From) || !a.Problems[1].To.Equal(a.Window.Until) {
		t.Errorf("%+v", a.Problems)
	}
	if ids := a.Unanswered(); len(ids) != 1 || len(a.Lines[query.XIDs]) > 0 || len(a.Lines[query.Nodes]) == 0 {
		t.Errorf("unanswered %v", ids)
	}
	g := a.Window.Grid(a.Window.Coarse)
	if missing := a.Missing(g, query.XIDs); slices.Contains(missing, false) || slices.Contains(a.Missing(g, query.Nodes), true) {
		t.Error("what is missing is not what was not answered")
	}
	// No query is answered in time: the run ends, and not only after each of some hundred queries.
	s = &server{fail: late, about: " ", limit: 24 * time.Hour}
	if _, err := query.Run(t.Context(), s, w, query.Options{Pause: time.Nanosecond}); !errors.Is(err, prom.ErrUnavailable) || s.failed > 40 {
		t.Errorf("after %d questions without an answer: %v", s.failed, err)
	}
}

// TestManyGPUs: steps and requests follow the number of GPUs and the scrape interval, so that no request takes more
// than some seconds of Prometheus' time.
func TestManyGPUs(t *testing.T) {
	for _, c := range []struct {
		gpus, scrapes int // in ten minutes
		since         time.Duration
		want          string
	}{
		{8, 40, 12 * time.Hour, "15s in 1"},
		{8, 39, 12 * time.Hour, "15s in 1"}, // one was missed
		{8, 20, 12 * time.Hour, "30s in 1"},
		{8, 10, 12 * time.Hour, "1m0s in 1"},
		{8, 2, 12 * time.Hour, "5m0s in 1"},
		{3000, 40, 12 * time.Hour, "1m0s in 3"},
		{3000, 40, 30 * 24 * time.Hour, "25m0s in 31"},
		{1000, 40, 30 * 24 * time.Hour, "5m0s in 31"},
		{20000, 40, 12 * time.Hour, "1m0s in 15"},
	} {
		s := &server{limit: 24 * time.Hour, instant: func(promql string) (prom.Vector, bool, error) {
			for begin, n := range map[string]int{"count(present_over_time(gpu_info[": c.gpus, "count(count by (node)": c.gpus / 8, "max(count_over_time(gpu_info[": c.scrapes} {
				if strings.HasPrefix(promql, begin) {
					return prom.Vector{{Value: float64(n)}}, true, nil
				}
			}
			return nil, false, nil
		}}
		a, err := query.Run(t.Context(), s, windowOf(t, c.since), query.Options{})
		require.NoError(t, err)
		if got := fmt.Sprintf("%s in %d", a.Window.Step, s.nodes); got != c.want {
			t.Errorf("%d GPUs, %d scrapes in ten minutes, %s: steps of %s requests, want %s", c.gpus, c.scrapes, c.since, got, c.want)
		}
	}
}

// TestLargeWindow: the list of GPUs and pods that is too large for a query about the whole window is queried for its
// last day.
func TestLargeWindow(t *testing.T) {
	w := windowOf(t, 90*24*time.Hour)
	for _, refusal := range []error{
		fmt.Errorf("%w: HTTP 422: cannot select more than -search.maxSamplesPerQuery=1000000000 samples", prom.ErrBadQuery),
		fmt.Errorf("%w: HTTP 422: the query time range exceeds the limit", prom.ErrBadQuery),
		fmt.Errorf("%w: %w", prom.ErrUnavailable, context.DeadlineExceeded),
	} {
		s := &server{limit: 24 * time.Hour, instant: func(promql string) (prom.Vector, bool, error) {
			return nil, strings.Contains(promql, "[2160h]"), refusal
		}}
		if a, err := query.Run(t.Context(), s, w, query.Options{}); err != nil || !a.Exporter || len(a.Lines[query.Nodes]) == 0 {
			t.Errorf("%v: %v", refusal, err)
		}
	}
}

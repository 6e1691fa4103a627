package cache

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

var (
	options = Options{Interval: 5 * time.Second, IdleAfter: 10 * time.Minute, FirstWait: 3 * time.Second, Concurrency: 2}
	pod     = signal.Key{Namespace: "chat", Pod: "a"}
)

// backend is a Prometheus whose clock is the test's.
type backend struct {
	mu      sync.Mutex
	queries int
	err     error
	delay   time.Duration
	value   float64
}

func (b *backend) Query(ctx context.Context, promql string, _ time.Time) (prom.Vector, error) {
	b.mu.Lock()
	b.queries++
	err, delay, value := b.err, b.delay, b.value
	b.mu.Unlock()
	at := time.Now()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil || !strings.Contains(promql, "vllm:num_requests_waiting") {
		return nil, err
	}
	labels := map[string]string{"namespace": "chat", "pod": "a", "gpuscale_part": "v0"}
	times := map[string]string{"namespace": "chat", "pod": "a", "gpuscale_part": "t0"}
	return prom.Vector{
		{Labels: prom.FromMap(labels), Value: value, Time: at},
		{Labels: prom.FromMap(times), Value: float64(at.UnixMilli()) / 1000, Time: at},
	}, nil
}

func (b *backend) set(change func(*backend)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queries
}

// run starts a cache inside a synctest bubble and stops it with the test.
func run(t *testing.T, b *backend, rules []signal.Rule) (*Cache, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	c, err := New(b, rules, options, reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return c, reg
}

func read(t *testing.T, c *Cache) (float64, error, error) {
	t.Helper()
	v, err := c.View(t.Context(), "queue_depth")
	if err != nil {
		t.Fatal(err)
	}
	a, none := v.Table.Pod(pod, k8slabels.Everything(), time.Now())
	return a.Value, none, v.Failure
}

func only(name string) []signal.Rule {
	for _, r := range signal.Builtin(15 * time.Second) {
		if r.Name == name {
			return []signal.Rule{r}
		}
	}
	return nil
}

// The number of queries follows the rules in use and the time, whatever is
// asked: one or five thousand autoscalers cost Prometheus the same.
func TestQueriesDoNotDependOnRequests(t *testing.T) {
	counts := map[int]int{}
	for _, requests := range []int{1, 5000} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{value: 7}
			c, _ := run(t, b, only("queue_depth"))
			for range 60 {
				for range requests {
					if v, none, _ := read(t, c); none != nil || v != 7 {
						t.Fatalf("%v, %v", v, none)
					}
				}
				time.Sleep(time.Second)
			}
			counts[requests] = b.count()
		})
	}
	for requests, queries := range counts {
		if queries < 11 || queries > 14 {
			t.Errorf("%d requests a second: %d queries in a minute at 5 s", requests, queries)
		}
	}
}

func TestIdleRulesAreNotQueried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, _ := run(t, b, only("queue_depth"))
		time.Sleep(options.IdleAfter + time.Minute)
		before := b.count()
		time.Sleep(time.Hour)
		if got := b.count(); got != before {
			t.Errorf("%d queries while nobody asked", got-before)
		}
		b.set(func(b *backend) { b.value, b.delay = 9, time.Second })
		start := time.Now()
		v, none, _ := read(t, c)
		if none != nil || v != 9 || time.Since(start) != time.Second {
			t.Errorf("first request after idleness: %v, %v after %s; want the new value after 1s", v, none, time.Since(start))
		}
		if got := b.count(); got != before+1 {
			t.Errorf("%d queries for the first request", got-before)
		}
	})
}

func TestAHundredFirstRequestsAreOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, _ := run(t, b, only("queue_depth"))
		time.Sleep(2 * time.Hour)
		before := b.count()
		b.set(func(b *backend) { b.delay = time.Second })
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if v, none, _ := read(t, c); none != nil || v != 7 {
					t.Errorf("%v, %v", v, none)
				}
			})
		}
		all.Wait()
		if got := b.count() - before; got != 1 {
			t.Errorf("%d queries", got)
		}
	})
}

func TestAFailureKeepsTheLastGoodUntilItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, reg := run(t, b, only("queue_depth"))
		b.set(func(b *backend) { b.err = &prom.PartialError{Warnings: []string{"half the stores are down"}} })
		time.Sleep(10 * time.Second)
		v, none, failure := read(t, c)
		if none != nil || v != 7 || !errors.Is(failure, prom.ErrPartial) {
			t.Errorf("after 10s: %v, %v, failure %v", v, none, failure)
		}
		time.Sleep(10 * time.Second)
		if v, none, _ := read(t, c); none == nil {
			t.Errorf("after 20s: still %v", v)
		}
		if n := testutil.ToFloat64(c.metrics.queries.WithLabelValues(DefaultBackend, "queue_depth", "partial")); n < 3 {
			t.Errorf("%v partial answers counted", n)
		}
		b.set(func(b *backend) { b.err, b.value = nil, 3 })
		time.Sleep(6 * time.Second)
		if v, none, failure := read(t, c); none != nil || v != 3 || failure != nil {
			t.Errorf("back again: %v, %v, %v", v, none, failure)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("metrics: %v %v", problems, err)
		}
	})
}

func TestASlowFirstAnswerIsNotWaitedForLongerThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7, delay: time.Minute}
		c, _ := run(t, b, only("queue_depth"))
		start := time.Now()
		_, none, failure := read(t, c)
		if none == nil || failure == nil || time.Since(start) != options.FirstWait {
			t.Errorf("%v, %v after %s", none, failure, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.View(ctx, "queue_depth"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
	})
}

func TestADownPrometheusIsNotAskedMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{err: prom.ErrUnavailable}
		c, _ := run(t, b, only("queue_depth"))
		if err := c.Ready(); !errors.Is(err, prom.ErrUnavailable) {
			t.Errorf("ready without data: %v", err)
		}
		start := time.Now()
		for range 1000 {
			if _, none, failure := read(t, c); none == nil || failure == nil {
				t.Fatal("an answer from nowhere")
			}
		}
		if b.count() != 1 || time.Since(start) != 0 {
			t.Errorf("%d queries, waited %s", b.count(), time.Since(start))
		}
		b.set(func(b *backend) { b.err = nil })
		time.Sleep(6 * time.Second)
		if err := c.Ready(); err != nil {
			t.Errorf("not ready with data: %v", err)
		}
	})
}

// A rule whose query hangs holds up no other rule.
func TestRulesStandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		hang := querier(func(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
			if strings.Contains(promql, "gpu_busy") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return b.Query(ctx, promql, at)
		})
		rules := append(only("queue_depth"), only("gpu_busy")...)
		c, err := New(hang, rules, options, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Minute)
		if v, none, _ := read(t, c); none != nil || v != 7 {
			t.Errorf("%v, %v", v, none)
		}
	})
}

type querier func(context.Context, string, time.Time) (prom.Vector, error)

func (q querier) Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
	return q(ctx, promql, at)
}

func TestUnknownAndRepeatedRules(t *testing.T) {
	twice := append(only("queue_depth"), only("queue_depth")...)
	if _, err := New(&backend{}, twice, options, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a rule declared twice was accepted")
	}
	c, err := New(&backend{}, only("queue_depth"), options, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.View(t.Context(), "nope"); !errors.Is(err, ErrUnknownRule) {
		t.Errorf("%v", err)
	}
}

// A rule that nobody has watched begins with its history; one query is enough
// for that, and the plain one follows.
func TestARuleBeginsWithItsHistory(t *testing.T) {
	cases := map[string]struct {
		fails func(n int, history bool) error // by attempt, from 0
		want  string                          // H: history, q: plain
	}{
		"good": {func(int, bool) error { return nil }, "Hqqqq"},
		"Prometheus comes back": {func(n int, _ bool) error {
			if n < 5 {
				return prom.ErrUnavailable
			}
			return nil
		}, "HHqHHqHqqq"},
		"a history that is too much": {func(_ int, history bool) error {
			if history {
				return prom.ErrBadQuery
			}
			return nil
		}, "HHqHqqqq"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := only("queue_depth")[0]
				var got strings.Builder
				q := querier(func(_ context.Context, promql string, _ time.Time) (prom.Vector, error) {
					n, history := got.Len(), promql == rule.History()
					if !history && promql != rule.Query() {
						t.Errorf("asks %s", promql)
					}
					got.WriteString(map[bool]string{true: "H", false: "q"}[history])
					return nil, c.fails(n, history)
				})
				k, err := New(q, []signal.Rule{rule}, options, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { k.Run(ctx); close(done) }()
				time.Sleep(2 * time.Minute)
				cancel()
				<-done
				if !strings.HasPrefix(got.String(), c.want) {
					t.Errorf("%s, want %s…", got.String(), c.want)
				}
			})
		})
	}
}

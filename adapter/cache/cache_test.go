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

// start runs a cache inside a synctest bubble and stops it with the test.
func start(t *testing.T, s Setup) (*Cache, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	c, err := New(s, reg, slog.New(slog.DiscardHandler))
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

func setup(q Querier, rules ...Rule) Setup {
	return Setup{Options: options, Backends: []Backend{{Name: DefaultBackend, Querier: q}}, Rules: rules}
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

func only(name string) Rule {
	for _, r := range signal.Builtin(15 * time.Second) {
		if r.Name == name {
			return Rule{Rule: r}
		}
	}
	panic("no built-in rule " + name)
}

// An idle rule is not queried; those who come first after that cause one query
// and wait for it.
func TestIdleRulesAreNotQueried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, _ := start(t, setup(b, only("queue_depth")))
		time.Sleep(options.IdleAfter + time.Minute)
		before := b.count()
		time.Sleep(time.Hour)
		if got := b.count(); got != before {
			t.Errorf("%d queries while nothing was requested", got-before)
		}
		b.set(func(b *backend) { b.value, b.delay = 9, time.Second })
		begin := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if v, none, _ := read(t, c); none != nil || v != 9 || time.Since(begin) != time.Second {
					t.Errorf("%v, %v after %s; want the new value after 1s", v, none, time.Since(begin))
				}
			})
		}
		all.Wait()
		if got := b.count(); got != before+1 {
			t.Errorf("%d queries for the first requests", got-before)
		}
	})
}

func TestAFailureKeepsTheLastGoodUntilItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, reg := start(t, setup(b, only("queue_depth")))
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
		c, _ := start(t, setup(b, only("queue_depth")))
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
		c, _ := start(t, setup(b, only("queue_depth")))
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
		c, _ := start(t, setup(hang, only("queue_depth"), only("gpu_busy")))
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

// A rule that was idle begins with its history; one query is enough
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
				rule := only("queue_depth")
				var got strings.Builder
				q := querier(func(_ context.Context, promql string, _ time.Time) (prom.Vector, error) {
					n, history := got.Len(), promql == rule.History()
					if !history && promql != rule.Query() {
						t.Errorf("asks %s", promql)
					}
					got.WriteString(map[bool]string{true: "H", false: "q"}[history])
					return nil, c.fails(n, history)
				})
				start(t, setup(q, rule))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if !strings.HasPrefix(got.String(), c.want) {
					t.Errorf("%s, want %s…", got.String(), c.want)
				}
			})
		})
	}
}

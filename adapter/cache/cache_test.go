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
	"github.com/gpuscale/gpuscale/internal/require"
)

var (
	options = func() Options {
		o := DefaultOptions()
		o.Interval, o.Concurrency = 5*time.Second, 2
		return o
	}()
	pod = signal.Key{Namespace: "chat", Pod: "a"}
)

// start runs a cache inside a synctest bubble and stops it with the test.
func start(t *testing.T, s Setup) (*Cache, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	c := New(s, reg, slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	running.Go(func() { c.Run(t.Context()) }) // which ends before the cleanup
	t.Cleanup(running.Wait)
	synctest.Wait()
	return c, reg
}

func setup(q Querier, rules ...signal.Rule) Setup {
	return Setup{Options: options, Backends: []Backend{{Name: DefaultBackend, Querier: q}}, Rules: rules}
}

func read(t *testing.T, c *Cache) (float64, error, error) {
	t.Helper()
	v, err := c.View(t.Context(), "queue_depth", "chat")
	require.NoError(t, err)
	a, none := v.Table.Pod(pod, k8slabels.Everything(), time.Now())
	return a.Value, none, v.Failure
}

func only(name string) signal.Rule {
	for _, r := range signal.Builtin(15 * time.Second) {
		if r.Name == name {
			return r
		}
	}
	panic("no built-in rule " + name)
}

// Ages are computed by the server's clock, which may be behind, even if the first of several queries has an empty
// answer.
func TestTheServersClockCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := start(t, setup(&fleet{behind: time.Hour}))
		rule := only("queue_depth")
		q := Question{
			Rule: "r", Empty: signal.NewTable(rule),
			Queries: func(bool, []string) []string { return []string{"nothing", rule.Query("chat")} },
		}
		s, err := c.Watch(t.Context(), q, "chat")
		if err != nil || s.Failure != nil {
			t.Fatal(s.Failure, err)
		}
		if a, err := s.Table.Pod(pod, k8slabels.Everything(), time.Now()); err != nil {
			t.Errorf("%+v, %v: by this clock all is an hour old", a, err)
		}
	})
}

// Without requests the cache sends no query. The first requests cause one query of the past and one of the present, and
// wait for them; later ones cause none.
func TestWithoutRequestsNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{value: 7, base: 100 * time.Millisecond}
		c, _ := start(t, setup(b, only("queue_depth"), only("gpu_busy")))
		for range 2 {
			time.Sleep(time.Hour)
			before := b.count()
			begin := time.Now()
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if v, none, _ := read(t, c); none != nil || v != 7 || time.Since(begin) != 200*time.Millisecond {
						t.Errorf("%v, %v after %s", v, none, time.Since(begin))
					}
				})
			}
			all.Wait()
			if got := b.count() - before; got != 2 {
				t.Errorf("%d queries for the first requests", got)
			}
			time.Sleep(time.Minute)
			if got := b.count() - before; got < 2+10 || got > 2+14 {
				t.Errorf("%d queries in a minute of 5s", got)
			}
			time.Sleep(2 * options.IdleAfter)
			before = b.count()
			time.Sleep(time.Hour)
			if got := b.count(); got != before {
				t.Errorf("%d queries while nothing was requested", got-before)
			}
		}
	})
}

func TestAFailureKeepsTheLastGoodUntilItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{value: 7}
		c, reg := start(t, setup(b, only("queue_depth")))
		var log strings.Builder
		c.log = slog.New(slog.NewTextHandler(&log, nil))
		read(t, c)
		b.set(func() { b.down = &prom.PartialError{Warnings: []string{"half the stores are down"}} })
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
		b.set(func() { b.down, b.value = nil, 3 })
		time.Sleep(6 * time.Second)
		if v, none, failure := read(t, c); none != nil || v != 3 || failure != nil {
			t.Errorf("back again: %v, %v, %v", v, none, failure)
		}
		b.set(func() { b.cached = time.Now() }) // a cache in between repeats this answer
		time.Sleep(25 * time.Second)
		if v, none, failure := read(t, c); none == nil || !errors.Is(failure, errRepeated) {
			t.Errorf("repeated: %v, %v", v, failure)
		}
		b.set(func() { b.cached = time.Time{} })
		time.Sleep(6 * time.Second)
		if v, none, failure := read(t, c); none != nil || v != 3 || failure != nil {
			t.Errorf("no cache any more: %v, %v, %v", v, none, failure)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "query answered again") {
			t.Errorf("a failure and its end are logged once each, a cache that repeats answers is not:\n%s", &log)
		}
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("metrics: %v %v", problems, err)
		}
	})
}

func TestASlowFirstAnswerIsNotWaitedForLongerThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{value: 7, base: time.Minute}
		c, _ := start(t, setup(b, only("queue_depth")))
		start := time.Now()
		_, none, failure := read(t, c)
		if none == nil || failure == nil || time.Since(start) != options.FirstWait {
			t.Errorf("%v, %v after %s", none, failure, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.View(ctx, "queue_depth", "chat"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
	})
}

// One query about no namespace shows that the server is at fault, not a namespace.
func TestADownPrometheusIsNotAskedMoreOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{down: prom.ErrUnavailable}
		c, _ := start(t, setup(b, only("queue_depth")))
		start := time.Now()
		for range 1000 {
			if _, none, failure := read(t, c); none == nil || failure == nil {
				t.Fatal("an answer from nowhere")
			}
		}
		if b.count() != 3 || time.Since(start) != 0 { // the past, the present, and about no namespace
			t.Errorf("%d queries, waited %s", b.count(), time.Since(start))
		}
		b.set(func() { b.down = nil })
		time.Sleep(6 * time.Second)
		if _, none, failure := read(t, c); none != nil || failure != nil {
			t.Errorf("back again: %v, %v", none, failure)
		}
	})
}

// A rule whose query hangs holds up no other rule.
func TestRulesStandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{value: 7}
		hang := querier(func(ctx context.Context, promql string, _ prom.Limits) (prom.Vector, error) {
			if strings.Contains(promql, "gpu_busy") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return b.QueryWithin(ctx, promql, time.Time{}, prom.Limits{})
		})
		c, _ := start(t, setup(hang, only("queue_depth"), only("gpu_busy")))
		if _, err := c.View(t.Context(), "gpu_busy", "chat"); err != nil {
			t.Error(err)
		}
		read(t, c)
		time.Sleep(time.Minute)
		if v, none, _ := read(t, c); none != nil || v != 7 {
			t.Errorf("%v, %v", v, none)
		}
	})
}

type querier func(context.Context, string, prom.Limits) (prom.Vector, error)

func (q querier) QueryWithin(ctx context.Context, promql string, _ time.Time, most prom.Limits) (prom.Vector, error) {
	return q(ctx, promql, most)
}

// A namespace begins with a query of its past, and one of the present follows. If the first fails and the second does
// not, the past is queried once more.
func TestANamespaceBeginsWithItsPast(t *testing.T) {
	cases := map[string]struct {
		fails func(n int, past bool) error // by attempt, from 0
		want  string                       // P: the past, q: the present; in brackets about no namespace
	}{
		"good": {func(int, bool) error { return nil }, "Pqqqq"},
		"Prometheus comes back": {func(n int, _ bool) error {
			if n < 6 {
				return prom.ErrUnavailable
			}
			return nil
		}, "Pq(P)Pq(P)Pqqqq"},
		"a past that is too much": {func(_ int, past bool) error {
			if past {
				return prom.ErrBadQuery
			}
			return nil
		}, "Pq(P)Pqqqq"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var got strings.Builder
				n := 0
				q := querier(func(_ context.Context, promql string, _ prom.Limits) (prom.Vector, error) {
					mu.Lock()
					defer mu.Unlock()
					past := strings.HasPrefix(promql, "last_over_time")
					word := map[bool]string{true: "P", false: "q"}[past]
					if strings.Contains(promql, `namespace="-"`) {
						word = "(" + word + ")"
					}
					got.WriteString(word)
					n++
					return nil, c.fails(n-1, past)
				})
				tables, _ := start(t, setup(q, only("gpu_share")))
				_, err := tables.View(t.Context(), "gpu_share", "chat")
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if !strings.HasPrefix(got.String(), c.want) {
					t.Errorf("%s, want %s…", got.String(), c.want)
				}
			})
		})
	}
}

// Each query has the parameter with its one namespace, also the control and the query of the recent past:
// prom-label-proxy refuses any other query.
func TestANamespaceParameter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		s := setup(querier(func(_ context.Context, query string, most prom.Limits) (prom.Vector, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked[most.Parameters["namespace"]]++; strings.Contains(query, "=~") {
				t.Errorf("about several namespaces: %s", query)
			}
			return nil, nil
		}), only("queue_depth"))
		s.Backends[0].NamespaceParameter = "namespace"
		c, _ := start(t, s)
		for _, namespace := range []string{"bank", "shop"} {
			if view, err := c.View(t.Context(), "queue_depth", namespace); err != nil || view.Failure != nil {
				t.Errorf("%s: %v, %v", namespace, err, view.Failure)
			}
		}
		time.Sleep(3 * options.Interval) // of the bubble's clock
		synctest.Wait()
		if n := asked["bank"] + asked["shop"]; n < 6 || len(asked) != 2 {
			t.Errorf("asked about %v", asked)
		}
	})
}

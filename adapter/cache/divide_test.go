package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// fleet is a Prometheus with one server in each namespace, whose clock is the test's. A namespace's fault happens in
// each query that reaches that namespace.
type fleet struct {
	mu      sync.Mutex
	queries int
	value   float64
	behind  time.Duration // its clock
	widest  int
	faults  map[string]fault
	down    error
	cached  time.Time // when the answers were made, if a cache repeats them
	spared  int       // while down, each query whose number it divides is answered; 0: none
	// base is how long each query takes, and each how much longer for each namespace in it.
	base, each time.Duration
}

type fault struct {
	err    error
	delay  time.Duration
	series int    // so many series in place of one
	metric string // only in queries of this metric; "" for all
}

// pass lets d go by, or fails when ctx ends, as a server that does not answer. Go's race detector crashes when two
// goroutines of a synctest bubble receive from timers that are due (seen with Go 1.26.8), so a d of 0 starts no timer.
func pass(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", prom.ErrUnavailable, ctx.Err())
	}
}

func (f *fleet) QueryWithin(ctx context.Context, promql string, _ time.Time, most prom.Limits) (prom.Vector, error) {
	f.mu.Lock()
	f.queries++
	down, value, behind, cached := f.down, f.value, f.behind, f.cached
	if f.spared > 0 && f.queries%f.spared == 0 {
		down = nil
	}
	namespaces := reached(promql)
	f.widest = max(f.widest, len(namespaces))
	met := map[string]fault{}
	for _, n := range namespaces {
		if bad, ok := f.faults[n]; ok && strings.Contains(promql, bad.metric) {
			met[n] = bad
		}
	}
	pace := f.base + time.Duration(len(namespaces))*f.each
	f.mu.Unlock()
	if err := pass(ctx, pace); err != nil {
		return nil, err
	}
	if down != nil {
		return nil, down
	}
	more := map[string]int{}
	for n, m := range met {
		if err := pass(ctx, m.delay); err != nil {
			return nil, err
		}
		if m.err != nil {
			return nil, m.err
		}
		more[n] += m.series
	}
	if !strings.Contains(promql, "vllm:num_requests_waiting") || strings.HasPrefix(promql, "last_over_time") {
		return nil, nil
	}
	var v prom.Vector
	now := time.Now().Add(-behind)
	if !cached.IsZero() {
		now = cached
	}
	add := func(part, namespace, pod string, value float64) {
		v = append(v, prom.Sample{Labels: prom.FromMap(map[string]string{"namespace": namespace, "pod": pod, signal.PartLabel: part}), Value: value, Time: now})
	}
	for _, n := range namespaces {
		if n == nowhere {
			continue
		}
		add("v0", n, "a", value)
		add("t0", n, "a", float64(now.UnixMilli())/1000)
		for range more[n] {
			add("v0", n, "x", 1)
		}
	}
	if most.Series > 0 && len(v) > most.Series {
		return nil, prom.ErrTooLarge
	}
	return v, nil
}

var selector = regexp.MustCompile(`\bnamespace=~?"([^"]*)"`)

// reached returns the namespaces that a query's first selector reaches.
func reached(promql string) []string {
	m := selector.FindStringSubmatch(promql)
	if m == nil {
		return nil
	}
	return strings.Split(m[1], "|")
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queries
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("team-%03d", i))
	}
	return all
}

// asking queries every namespace. It returns the namespaces that have an answer no older than allowed, and the failures
// of the others.
func asking(t *testing.T, c *Cache, namespaces []string, allowed time.Duration) (good []string, failures map[string]error) {
	t.Helper()
	failures = map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, n := range namespaces {
		all.Go(func() {
			v, err := c.View(t.Context(), "queue_depth", n)
			if err != nil {
				t.Error(err)
				return
			}
			a, err := v.Table.Pod(signal.Key{Namespace: n, Pod: "a"}, k8slabels.Everything(), time.Now())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && time.Since(a.Time) <= allowed:
				good = append(good, n)
			default:
				failures[n] = errors.Join(err, v.Failure)
			}
		})
	}
	all.Wait()
	slices.Sort(good)
	return good, failures
}

// answered is the client's error for an HTTP status.
func answered(t *testing.T, status int) error {
	t.Helper()
	server := promtest.New(t)
	server.Answer(promtest.Response{Status: status, Body: "<html>"})
	c, err := prom.New(prom.Config{URL: server.URL})
	require.NoError(t, err)
	_, err = c.Query(t.Context(), "up", time.Time{})
	return err
}

// noneAlone fails if a namespace is queried by itself.
func noneAlone(t *testing.T, c *Cache) {
	t.Helper()
	if i := slices.IndexFunc(c.Status(), func(s Status) bool { return s.Alone }); i >= 0 {
		t.Fatalf("%s is asked about by itself", c.Status()[i].Namespace)
	}
}

// fleetSetup has a rule with few series: the queries about 50 namespaces with all rules are long.
func fleetSetup(f *fleet) Setup {
	s := setup(f, only("queue_depth"))
	s.Rules[0].Sources = slices.DeleteFunc(s.Rules[0].Sources, func(s signal.Source) bool { return s.Server != metric.ServerVLLM })
	s.Options.Interval, s.Options.Budget = 15*time.Second, prom.Limits{Series: 1000, Bytes: 1 << 20}
	s.Options.Concurrency = 4
	s.Rules[0].MaxAge = 45 * time.Second
	return s
}

// Whatever fails in two namespaces, before the first request or later, the 118 others keep their answers, no older than
// without the fault. The two are queried by themselves, and with the others again after ten good minutes.
func TestAFaultConcernsItsNamespace(t *testing.T) {
	const apart = "vllm:num_requests_waiting"
	cases := map[string]struct {
		fault
		says string
	}{
		"behind a proxy":  {fault{err: answered(t, http.StatusBadGateway)}, "502"},
		"an error":        {fault{err: fmt.Errorf("%w: duplicate series", prom.ErrBadQuery)}, "duplicate series"},
		"one series":      {fault{err: fmt.Errorf("%w: duplicate series", prom.ErrBadQuery), metric: apart}, "the series is " + apart},
		"a warning":       {fault{err: &prom.PartialError{Warnings: []string{"no bucket"}}}, "no bucket"},
		"too many series": {fault{series: 1200}, "too large"},
		"all the budget":  {fault{series: 5000}, "too large"},
		"slow":            {fault{delay: time.Minute}, "deadline"},
	}
	all := names(120)
	culprits := []string{all[7], all[66]}
	innocent := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(culprits, n) })
	for name, bad := range cases {
		for _, early := range []bool{true, false} {
			if early && name != "an error" && !testall.Enabled() {
				continue // make test-all runs the others with a fault from the first query on
			}
			t.Run(fmt.Sprint(name, "/early=", early), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fleet{faults: map[string]fault{}}
					harm := func() { f.set(func() { f.faults[culprits[0]], f.faults[culprits[1]] = bad.fault, bad.fault }) }
					if early {
						harm()
					}
					c, _ := start(t, fleetSetup(f))
					asking(t, c, all, time.Hour)
					time.Sleep(20 * time.Second)
					if !early {
						harm()
					}
					for range 12 {
						time.Sleep(10 * time.Second)
						good, failures := asking(t, c, all, 17*time.Second+10*time.Second*7/4)
						if lost := slices.DeleteFunc(slices.Clone(innocent), func(n string) bool { return slices.Contains(good, n) }); len(lost) > 0 {
							t.Fatalf("%v have no answer: %v", lost, failures[lost[0]])
						}
					}
					good, failures := asking(t, c, all, 17*time.Second)
					if !slices.Equal(good, innocent) {
						t.Errorf("%v have no recent answer", failures)
					}
					for _, n := range culprits {
						if err := failures[n]; err == nil || !strings.Contains(err.Error(), bad.says) {
							t.Errorf("%s: %v lacks %q", n, err, bad.says)
						}
					}
					before := f.count()
					time.Sleep(time.Minute)
					if n := f.count() - before; n > 5*3+2*20 {
						t.Errorf("%d queries a minute", n)
					}
					f.set(func() { clear(f.faults) })
					for range 3 * 20 {
						time.Sleep(20 * time.Second)
						asking(t, c, all, time.Hour)
					}
					if good, failures := asking(t, c, all, 17*time.Second); !slices.Equal(good, all) {
						t.Errorf("when all is well again: %v", failures)
					}
					noneAlone(t, c)
					before = f.count()
					time.Sleep(time.Minute)
					if n := f.count() - before; n > 5*3 {
						t.Errorf("%d queries a minute for 120 namespaces, %d at once", n, c.topics[c.rules["queue_depth"].key()].width)
					}
					if f.widest > maxWidth {
						t.Errorf("a query about %d namespaces", f.widest)
					}
				})
			})
		}
	}
}

// A failure that a query about no namespace has too, or that precedes the query, is no namespace's fault: nothing is
// divided, and no namespace is queried by itself.
func TestABackendsFaultDividesNothing(t *testing.T) {
	for name, err := range map[string]error{
		"down": prom.ErrUnavailable, "down behind a proxy": answered(t, http.StatusBadGateway), "partial": &prom.PartialError{Warnings: []string{"a store is away"}}, "a query it does not understand": prom.ErrBadQuery,
		"too busy for every other query": answered(t, http.StatusTooManyRequests), "broken for every other query behind a proxy": answered(t, http.StatusBadGateway),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{}
				c, _ := start(t, fleetSetup(f))
				all := names(120)
				asking(t, c, all, time.Hour)
				time.Sleep(20 * time.Second)
				most := 10 * 3 * 3
				if strings.Contains(name, "every other") { // the controls of queries that overlap may all be spared; 9,000 is when each query is divided
					f.set(func() { f.spared = 2 })
					most *= 10
				}
				f.set(func() { f.down = err })
				before := f.count()
				time.Sleep(2 * time.Minute)
				if n := f.count() - before; n > most {
					t.Errorf("%d queries in two minutes", n)
				}
				noneAlone(t, c)
				f.set(func() { f.down = nil })
				time.Sleep(17 * time.Second)
				if good, failures := asking(t, c, all, 17*time.Second); !slices.Equal(good, all) {
					t.Errorf("when it is back: %v", failures)
				}
			})
		})
	}
}

// A server without a free processor is slow about everything: it gets fewer namespaces in a query, not more queries,
// and no namespace is at fault.
func TestASlowServerIsNotAskedMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{}
		s := fleetSetup(f)
		s.Rules[0].Sources = only("queue_depth").Sources // so that a query about 50 namespaces is in two pieces
		c, _ := start(t, s)
		all := names(120)
		asking(t, c, all, time.Hour)
		time.Sleep(20 * time.Second)
		f.set(func() { f.base, f.each = 2*time.Second, 30*time.Millisecond })
		before := f.count()
		for range 3 {
			time.Sleep(20 * time.Second)
			asking(t, c, all, time.Hour)
		}
		// The order in which queries end is random: about 90 queries. Each namespace by itself would take 480.
		if n := f.count() - before; n > 150 {
			t.Errorf("%d queries in the first minute", n)
		}
		noneAlone(t, c)
		time.Sleep(time.Minute)
		if good, failures := asking(t, c, all, 45*time.Second); !slices.Equal(good, all) {
			t.Errorf("%d have an answer: %v", len(good), failures)
		}
	})
}

// An answer that is too large for one query, with no namespace at fault, is queried in parts.
func TestTooMuchTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{faults: map[string]fault{}}
		all := names(40)
		for _, n := range all {
			f.faults[n] = fault{series: 300}
		}
		c, _ := start(t, fleetSetup(f))
		asking(t, c, all, time.Hour)
		time.Sleep(40 * time.Second)
		if good, failures := asking(t, c, all, 17*time.Second); !slices.Equal(good, all) {
			t.Errorf("%v", failures)
		}
		before := f.count()
		time.Sleep(time.Minute)
		if n := f.count() - before; n > 5*10 {
			t.Errorf("%d queries a minute: the width is not kept", n)
		}
	})
}

// A cache that repeats every second answer is no fault of a namespace: a namespace that was at fault is queried with
// the others again after the usual time.
func TestARepeatedAnswerIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{value: 7, faults: map[string]fault{"chat": {err: prom.ErrBadQuery}}}
		c, _ := start(t, setup(b, only("queue_depth")))
		read(t, c)
		alone := func() bool { return c.Status()[0].Alone }
		if !alone() {
			t.Fatal("the namespace at fault is asked about with others")
		}
		b.set(func() { b.faults = nil })
		for i := range 170 { // fourteen minutes
			b.set(func() { b.cached = time.Time{} })
			if i%2 == 0 {
				b.set(func() { b.cached = time.Now() })
			}
			time.Sleep(options.Interval)
			read(t, c)
		}
		if alone() {
			t.Error("it is still asked about by itself")
		}
	})
}

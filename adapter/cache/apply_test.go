package cache

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

func TestARuleThatDidNotChangeKeepsItsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		c, reg := start(t, setup(b, only("queue_depth"), only("gpu_busy")))
		before, _ := c.View(t.Context(), "queue_depth")
		queries := b.count()

		b.set(func(b *backend) { b.err = prom.ErrUnavailable })
		// Built again, as a reload does, and with a backend whose client is new.
		if err := c.Apply(setup(b, only("queue_depth"), only("kv_cache_usage"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		after, err := c.View(t.Context(), "queue_depth")
		if err != nil || after.Table != before.Table {
			t.Errorf("the table was lost: %v", err)
		}
		if b.count() != queries+1 {
			t.Errorf("%d queries: only the new rule has something to ask at once", b.count()-queries)
		}
		if _, err := c.View(t.Context(), "gpu_busy"); !errors.Is(err, ErrUnknownRule) {
			t.Errorf("a removed rule: %v", err)
		}
		if len(c.Rules()) != 2 {
			t.Errorf("rules %v", c.Rules())
		}
		if n, _ := testutil.GatherAndCount(reg, metric.AdapterDropped.Name); n != 2*len(signal.Reasons()) {
			t.Errorf("%d series of two rules and %d reasons", n, len(signal.Reasons()))
		}
		if n, _ := testutil.GatherAndCount(reg, metric.AdapterQueries.Name); n != 6 {
			t.Errorf("%d series of two rules and three results", n)
		}
	})
}

func TestARuleThatChangedStartsAgain(t *testing.T) {
	change := map[string]func(*Setup){
		"its bound":    func(s *Setup) { s.Rules[0].Maximum = 5 },
		"its backend":  func(s *Setup) { s.Rules[0].Backend = "other" },
		"its server's": func(s *Setup) { s.Backends[0].Version = "moved" },
	}
	for name, apply := range change {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &backend{value: 7}
				of := func() Setup {
					s := setup(b, only("queue_depth"))
					s.Backends = append(s.Backends, Backend{Name: "other", Querier: &backend{value: 3}})
					return s
				}
				c, _ := start(t, of())
				watched(t, c, counting("up"))
				before, _ := c.View(t.Context(), "queue_depth")
				s := of()
				apply(&s)
				if err := c.Apply(s); err != nil {
					t.Fatal(err)
				}
				after, err := c.View(t.Context(), "queue_depth") // waits for the first answer
				if err != nil || after.Failure != nil || after.Table == before.Table || after.Table.Series() != 1 {
					t.Errorf("%v %v: %d series", err, after.Failure, after.Table.Series())
				}
				time.Sleep(time.Minute)
				if n := len(c.entries()); name == "its server's" && n != 1 {
					t.Errorf("%d entries: what was asked of the old server is forgotten", n)
				}
			})
		})
	}
}

func TestABadSetupChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{value: 7}
		queue := only("queue_depth")
		c, _ := start(t, setup(b, queue))
		twice := setup(b, queue, queue)
		nowhere := setup(b, Rule{Rule: queue.Rule, Backend: "nowhere"})
		repeated := setup(b)
		repeated.Backends = append(repeated.Backends, repeated.Backends[0])
		for _, s := range []Setup{twice, nowhere, repeated} {
			if err := c.Apply(s); err == nil {
				t.Errorf("accepted: %+v", s)
			}
		}
		if v, none, _ := read(t, c); none != nil || v != 7 {
			t.Errorf("%v, %v", v, none)
		}
	})
}

// Two readings of one configuration give the same versions, or every reload
// would throw away every table.
func TestVersionsAreReproducible(t *testing.T) {
	one, two := signal.Builtin(time.Minute), signal.Builtin(time.Minute)
	for i := range one {
		if a, b := (Rule{Rule: one[i]}).version(), (Rule{Rule: two[i]}).version(); a != b || a == "" {
			t.Errorf("%s: %s and %s", one[i].Name, a, b)
		}
	}
	changed := one[0]
	changed.MaxAge++
	if (Rule{Rule: changed}).version() == (Rule{Rule: one[0]}).version() {
		t.Error("a changed rule has the old version")
	}
}

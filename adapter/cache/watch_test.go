package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// question is one of a request's own.
func question(query string) Question {
	return Question{
		Rule: "question", Version: query, Empty: signal.NewTable(only("queue_depth")),
		Queries: func(bool, []string) []string { return []string{query} },
	}
}

func watched(t *testing.T, c *Cache, q Question) State {
	t.Helper()
	s, err := c.Watch(t.Context(), q, "chat")
	require.NoError(t, err)
	return s
}

func TestAQuestionIsKeptAnsweredWhileItIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{base: time.Second}
		c, reg := start(t, setup(b))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if s := watched(t, c, question("up")); s.Failure != nil || s.At.IsZero() {
					t.Errorf("the first watch: %+v", s)
				}
			})
		}
		all.Wait()
		if b.count() != 1 {
			t.Errorf("%d queries for one question", b.count())
		}
		time.Sleep(time.Minute)
		b.set(func() { b.down = prom.ErrTooLarge })
		time.Sleep(2 * b.base) // the end of what is in flight
		good := watched(t, c, question("up"))
		if n := b.count(); n < 8 {
			t.Errorf("after a minute at 5s: %d queries", n)
		}
		time.Sleep(time.Minute)
		if s := watched(t, c, question("up")); s.Table != good.Table || !s.At.Equal(good.At) || !errors.Is(s.Failure, prom.ErrTooLarge) {
			t.Errorf("%+v: the last good answer and the failure should stand", s)
		}
		b.set(func() { b.down = nil })
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("metrics: %v %v", problems, err)
		}
		active := func(want string) {
			t.Helper()
			text := "# HELP gpuscale_adapter_questions_active " + metric.AdapterQuestions.Help +
				"\n# TYPE gpuscale_adapter_questions_active gauge\ngpuscale_adapter_questions_active{backend=\"default\"} " + want + "\n"
			require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(text), metric.AdapterQuestions.Name))
		}
		active("1")
		time.Sleep(2 * options.IdleAfter)
		active("0")
		before := b.count()
		time.Sleep(time.Hour)
		if b.count() != before || len(c.topics) != 0 {
			t.Errorf("an idle question: %d more queries, %d kept", b.count()-before, len(c.topics))
		}
		if s := watched(t, c, question("up")); !s.At.Equal(time.Now()) {
			t.Errorf("after idleness: the answer of %s, and not a new beginning", s.At)
		}
	})
}

func TestQuestionsAreDistinct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fleet{}
		s := setup(b)
		s.Backends = append(s.Backends, Backend{Name: "other", Querier: b})
		c, _ := start(t, s)
		rule, other, version := question("up"), question("up"), question("up")
		rule.Rule, other.Backend, version.Version = "second", "other", "2"
		for _, q := range []Question{question("up"), question("down"), rule, other, version} {
			watched(t, c, q)
		}
		same := question("up")
		same.Backend = DefaultBackend
		watched(t, c, same)
		if b.count() != 5 {
			t.Errorf("%d queries for 5 questions", b.count())
		}
	})
}

// The questions of one namespace are bounded, whatever the others ask.
func TestTheNumberOfQuestionsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup(&fleet{})
		s.Options.MaxQuestions = 2
		c, _ := start(t, s)
		ask := func(namespace string, n int) error {
			_, err := c.Watch(t.Context(), question(fmt.Sprint(namespace, n)), namespace)
			return err
		}
		for i := range 10 {
			for n := range 2 {
				require.NoError(t, ask(fmt.Sprint("tenant", i), n))
			}
		}
		if err := ask("tenant3", 2); !errors.Is(err, ErrTooManyQuestions) {
			t.Errorf("beyond its bound: %v", err)
		}
		if err := ask("tenant3", 1); err != nil {
			t.Errorf("what it asks already: %v", err)
		}
		if n := len(c.Status()); n != 20 {
			t.Errorf("%d questions", n)
		}
		time.Sleep(2 * options.IdleAfter)
		if err := ask("tenant3", 2); err != nil {
			t.Errorf("when its others are forgotten: %v", err)
		}
	})
}

// An answer at which a rule's own code panics costs that rule, not the process.
func TestAQuestionThatPanicsStandsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := start(t, setup(&fleet{}))
		bad := question("bad")
		bad.Empty = nil
		if s := watched(t, c, bad); !s.At.IsZero() || s.Failure == nil || !strings.Contains(s.Failure.Error(), "nil pointer") {
			t.Errorf("%+v", s)
		}
		if s := watched(t, c, question("good")); s.At.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// A slow backend holds up its own questions and no others.
func TestBackendsStandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup(&fleet{})
		var most, now int
		var mu sync.Mutex
		hang := querier(func(ctx context.Context, _ string, _ prom.Limits) (prom.Vector, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			now--
			mu.Unlock()
			return nil, ctx.Err()
		})
		s.Backends = append(s.Backends, Backend{Name: "slow", Querier: hang})
		c, _ := start(t, s)
		var all sync.WaitGroup
		for i := range 20 {
			q := question(fmt.Sprint("slow", i))
			q.Backend = "slow"
			all.Go(func() {
				if s := watched(t, c, q); !s.At.IsZero() || s.Failure == nil {
					t.Errorf("%+v", s)
				}
			})
		}
		synctest.Wait()
		before := time.Now()
		if s := watched(t, c, question("quick")); s.At.IsZero() || time.Since(before) != 0 {
			t.Errorf("%+v after %s", s, time.Since(before))
		}
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != options.Concurrency {
			t.Errorf("%d queries at once, not %d", most, options.Concurrency)
		}
	})
}

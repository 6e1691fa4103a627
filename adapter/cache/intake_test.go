package cache

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// streaming hands out what a backend answers element by element.
type streaming struct {
	*backend
	broken error // what it ends with, after the first element
}

func (s streaming) Each(ctx context.Context, promql string, at time.Time, lock sync.Locker, take func([][2][]byte, float64, time.Time)) error {
	vector, err := s.Query(ctx, promql, at)
	if err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	for _, sample := range vector {
		var pairs [][2][]byte
		for name, value := range sample.Labels.All() {
			pairs = append(pairs, [2][]byte{[]byte(name), []byte(value)})
		}
		take(pairs, sample.Value, sample.Time)
		if s.broken != nil {
			return s.broken
		}
	}
	return nil
}

// TestAnswersAreTakenInElementByElement: the table is the one that a whole
// vector gives, an answer that breaks off changes nothing and leaves nothing
// behind, and one that cannot be taken in costs its rule alone.
func TestAnswersAreTakenInElementByElement(t *testing.T) {
	rule := only("queue_depth")
	server := streaming{backend: &backend{value: 4}}
	c, err := New(setup(server, rule), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b, e := c.plan.Load().backends[DefaultBackend], c.plan.Load().rules[rule.Name]
	value := func() float64 {
		t.Helper()
		a, err := e.latest.Load().value.(*signal.Table).Pod(pod, k8slabels.Everything(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return a.Value
	}
	ask := func(q Querier) error {
		b.Querier = q
		return c.refresh(t.Context(), e, e.Query)
	}
	if err := ask(server); err != nil || value() != 4 {
		t.Fatal(err, value())
	}
	good := e.latest.Load()
	if err := ask(streaming{&backend{value: 7}, prom.ErrUnavailable}); err == nil || e.latest.Load() != good {
		t.Errorf("half an answer: %v", err)
	}
	taking := e.Intake
	e.Intake = panics{taking}
	if err := ask(server); err == nil || e.latest.Load() != good {
		t.Errorf("an answer that cannot be taken in: %v", err)
	}
	e.Intake = taking
	if err := ask(streaming{backend: &backend{value: 9}}); err != nil || value() != 9 {
		t.Error(err, value())
	}
	if n := e.latest.Load().series; n != 1 {
		t.Errorf("%d series, of which some are of the answers that broke off", n)
	}
}

// panics stands nothing.
type panics struct{ Intake }

func (panics) Add([][2][]byte, float64) { panic("no such part") }

package signal

import (
	"errors"
	"slices"
	"testing"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// step is the scrape interval of the loads below.
const step = 5 * time.Second

// epoch is the time of a load's first value.
var epoch = time.UnixMilli(1_700_000_000_000)

// load reads series in promtool's notation, one a line, a value each step.
func load(t testing.TB, text string) *memstore.Server {
	t.Helper()
	return promtest.Load(t, text, memstore.From(epoch, step), nil)
}

// sampled is an answer as a table reads it.
func sampled(vector prom.Vector) (samples []Sample) {
	sample := Sampler()
	for _, s := range vector {
		samples = append(samples, sample(s.Labels, s.Value))
	}
	return samples
}

// ask evaluates a rule's own query at a time after the epoch and reads it into the table after previous. The reader's
// clock is an hour ahead of Prometheus', which must not matter.
func ask(t testing.TB, m *memstore.Server, previous *Table, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	rule := previous.Rule()
	return askFor(t, m, previous, rule.Query(), after)
}

func askFor(t testing.TB, m *memstore.Server, previous *Table, promql string, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	evaluated := epoch.Add(after)
	vector, err := m.Query(t.Context(), promql, evaluated)
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	now := evaluated.Add(time.Hour)
	next, dropped := previous.Read(sampled(vector), Reading{Evaluated: evaluated, Now: now})
	return next, dropped, now
}

// of keeps some servers' sources of a rule: a test of these takes a tenth of the time.
func of(r Rule, servers ...string) Rule {
	r.Sources = slices.DeleteFunc(slices.Clone(r.Sources), func(s Source) bool { return !slices.Contains(servers, s.Server) })
	return r
}

var anything = k8slabels.Everything()

// none stands for no answer.
const none = -1

// wants compares an answer with a value, or with none.
func wants(t testing.TB, what string, want float64, a Answer, err error) {
	t.Helper()
	var no *NoAnswer
	if want == none && !errors.As(err, &no) || want != none && (err != nil || !near(a.Value, want)) {
		t.Errorf("%s: %+v, %v, want %v", what, a, err, want)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

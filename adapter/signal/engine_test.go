package signal

import (
	"iter"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// step is the scrape interval of the loads below.
const step = 5 * time.Second

// epoch is the time of a load's first value.
var epoch = time.UnixMilli(1_700_000_000_000)

var engine = memstore.NewEngine(nil)

// load reads series in promtool's notation, one a line, a value each step.
func load(t testing.TB, text string) memstore.Series {
	t.Helper()
	m, err := memstore.Read(text, memstore.From(epoch, step))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask evaluates a rule's own query at a time after the epoch and reads it into
// the table after previous. The reader's clock is an hour ahead of
// Prometheus's, which must not matter.
func ask(t testing.TB, m memstore.Series, previous *Table, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	rule := previous.Rule()
	return askFor(t, m, previous, rule.Query(), after)
}

func askFor(t testing.TB, m memstore.Series, previous *Table, promql string, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	evaluated := epoch.Add(after)
	vector, warnings, err := memstore.Instant(t.Context(), engine, m, promql, evaluated)
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	// The adapter takes an answer with warnings for a partial one.
	if said, _ := warnings.AsStrings(promql, 10, 0); len(said) > 0 {
		t.Fatalf("%s: %q", promql, said)
	}
	var samples []Sample
	for _, s := range vector {
		samples = append(samples, NewSample(pairs(s.Metric), s.F))
	}
	now := evaluated.Add(time.Hour)
	next, dropped := previous.Read(samples, Reading{Evaluated: evaluated, Now: now})
	return next, dropped, now
}

func pairs(ls labels.Labels) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		ls.Range(func(l labels.Label) { yield(l.Name, l.Value) })
	}
}

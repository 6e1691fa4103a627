package signal

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// step is the scrape interval of the loads below.
const step = 5 * time.Second

// epoch is the time of a load's first value.
var epoch = time.UnixMilli(1_700_000_000_000)

// load reads series in promtool's notation, one a line, a value each step.
func load(t testing.TB, text string) *promtest.Memory {
	t.Helper()
	return promtest.Load(t, text, memstore.From(epoch, step), nil)
}

// ask evaluates a rule's own query at a time after the epoch and reads it into
// the table after previous. The reader's clock is an hour ahead of
// Prometheus's, which must not matter.
func ask(t testing.TB, m *promtest.Memory, previous *Table, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	rule := previous.Rule()
	return askFor(t, m, previous, rule.Query(), after)
}

func askFor(t testing.TB, m *promtest.Memory, previous *Table, promql string, after time.Duration) (*Table, map[Reason]int, time.Time) {
	t.Helper()
	evaluated := epoch.Add(after)
	vector, err := m.Query(t.Context(), promql, evaluated)
	if err != nil {
		t.Fatalf("%s: %v", promql, err)
	}
	var samples []Sample
	for _, s := range vector {
		samples = append(samples, previous.rule.Sample(s.Labels, s.Value))
	}
	now := evaluated.Add(time.Hour)
	next, dropped := previous.Read(samples, Reading{Evaluated: evaluated, Now: now})
	return next, dropped, now
}

// begin is what a table that begins knows: the recent past, and then the present.
func begin(t testing.TB, m *promtest.Memory, rule Rule, after time.Duration) (*Table, time.Time) {
	t.Helper()
	before, _, _ := askFor(t, m, NewTable(rule), rule.Past(), after)
	table, _, now := ask(t, m, before, after)
	return table, now
}

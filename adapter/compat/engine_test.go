package compat

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

const scrape = 15 * time.Second

var epoch = time.UnixMilli(1_700_000_000_000)

// memory is a few series for Prometheus's own engine.
type memory struct{ *memstore.Server }

// load reads series in promtool's notation, one a line, a value each scrape.
func load(t testing.TB, text string) memory {
	t.Helper()
	for _, word := range []string{"NaN", "Inf"} { // the notation has no "x40" for these
		text = strings.ReplaceAll(text, word+"x40", strings.Repeat(word+" ", 41))
	}
	return memory{promtest.Load(t, text, memstore.From(epoch, scrape), signal.Parser)}
}

// query evaluates PromQL at a time after the epoch.
func (m memory) query(t testing.TB, text string, after time.Duration) (prom.Vector, error) {
	t.Helper()
	return m.Query(t.Context(), text, epoch.Add(after))
}

// ask evaluates a plan and reads a namespace's part of the answer, on a clock an hour ahead of Prometheus'.
func (m memory) ask(t testing.TB, p *plan, after time.Duration, namespace string) view {
	t.Helper()
	v, err := m.query(t, p.query, after)
	if err != nil {
		t.Fatalf("%s: %v", p.query, err)
	}
	v = slices.DeleteFunc(v, func(s prom.Sample) bool {
		about := s.Labels.Get(p.namespace)
		return about != "" && about != namespace
	})
	r := signal.Reading{Evaluated: epoch.Add(after), Now: epoch.Add(after + time.Hour)}
	table, _ := signal.NewTable(p.rule(2*time.Minute)).Read(cache.Samples(v), r)
	return view{p, cache.State{Table: table}}
}

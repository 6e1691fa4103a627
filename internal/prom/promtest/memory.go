package promtest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// Memory answers queries with Prometheus's own engine over a few series.
type Memory struct {
	memstore.Series
	// Now is the time of queries without one.
	Now time.Time
	// Fail is called before each query, and never fails unless it is set.
	Fail func(promql string, at time.Time) error

	engine *promql.Engine
}

// Load reads series in promtool's notation, one a line, at the clock's times.
// Queries are parsed with p; nil is Prometheus's own parser.
func Load(t testing.TB, text string, clock memstore.Clock, p parser.Parser) *Memory {
	t.Helper()
	series, err := memstore.Read(text, clock)
	if err != nil {
		t.Fatal(err)
	}
	return &Memory{Series: series, engine: memstore.NewEngine(p), Fail: func(string, time.Time) error { return nil }}
}

// Query evaluates like a server: with a warning, the answer is partial.
func (m *Memory) Query(ctx context.Context, text string, at time.Time) (prom.Vector, error) {
	if at.IsZero() {
		at = m.Now
	}
	if err := m.Fail(text, at); err != nil {
		return nil, err
	}
	return memstore.Query(ctx, m.engine, m.Series, text, at)
}

// Range is Query over a time; Fail is called with its beginning.
func (m *Memory) Range(ctx context.Context, text string, from, to time.Time, step time.Duration) ([]prom.Line, error) {
	if err := m.Fail(text, from); err != nil {
		return nil, err
	}
	return memstore.Range(ctx, m.engine, m.Series, text, from, to, step)
}

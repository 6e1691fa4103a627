package promtest

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Load reads series in promtool's notation, one a line, at the clock's times, for
// Prometheus's own engine. Queries are parsed with p; nil is Prometheus's own parser.
func Load(t testing.TB, text string, clock memstore.Clock, p parser.Parser) *memstore.Server {
	t.Helper()
	series, err := memstore.Read(text, clock)
	require.NoError(t, err)
	return &memstore.Server{Data: series, Engine: memstore.NewEngine(p)}
}

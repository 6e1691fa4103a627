package explain

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// scrape is the interval of the loads below.
const scrape = 15 * time.Second

// end is the time of a load's last value, and where a synctest bubble's clock
// begins.
var end = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// engine is Prometheus's own engine over a few series.
type engine struct {
	engine *promql.Engine
	series memstore.Series
	down   func(at time.Time) bool
}

// load reads series in promtool's notation, one a line, a value each scrape,
// the last one at end.
func load(t testing.TB, text string) *engine {
	t.Helper()
	series, err := memstore.Read(text, memstore.Until(end, scrape))
	if err != nil {
		t.Fatal(err)
	}
	return &engine{engine: memstore.NewEngine(nil), series: series}
}

// Query implements the Querier.
func (e *engine) Query(ctx context.Context, query string, at time.Time) (prom.Vector, error) {
	if at.IsZero() {
		at = end
	}
	if e.down != nil && e.down(at) {
		return nil, fmt.Errorf("%w: connection refused", prom.ErrUnavailable)
	}
	vector, _, err := memstore.Instant(ctx, e.engine, e.series, query, at)
	if err != nil {
		return nil, err
	}
	return memstore.Samples(vector, at), nil
}

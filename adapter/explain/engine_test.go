package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// end is the time of a load's last value, and where a synctest bubble's clock
// begins.
var end = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// load reads series in promtool's notation, one in a line, with a value each 15 s and the last one at end. Prometheus
// is down when down returns true.
func load(t testing.TB, text string, down func(at time.Time) bool) *memstore.Server {
	t.Helper()
	m := promtest.Load(t, text, memstore.Until(end, 15*time.Second), nil)
	m.Now = end
	m.Fail = func(query string, at time.Time) error {
		switch {
		case down != nil && down(at):
			return fmt.Errorf("%w: connection refused", prom.ErrUnavailable)
		case len(query) > 16_384:
			return fmt.Errorf("%w: too long query, as VictoriaMetrics says", prom.ErrBadQuery)
		}
		return nil
	}
	return m
}

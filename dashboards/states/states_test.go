package states

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// ask evaluates a query at a moment of a state.
func ask(t *testing.T, s State, honor bool, query string, at time.Time) promql.Vector {
	t.Helper()
	v, _, err := memstore.Instant(t.Context(), engine, s.Storage(honor), query, at)
	if err != nil {
		t.Fatalf("%s: %s: %v", s.Name, query, err)
	}
	return v
}

// absent are the series that no state has, and why.
var absent = map[string]string{
	metric.AutoscalerLimitExceeded.Name: "no namespace exceeds a limit",
	metric.AutoscalerEvents.Name:        "the loop runs without a recorder of Events",
	metric.AdapterForwarded.Name:        "nothing is forwarded",
	metric.ExporterNodeWrites.Name:      "the exporter's agent is off unless asked for",
	metric.ExporterSeriesDropped.Name:   "no budget of series is exceeded",
}

// Every family of the catalogue is emitted in some state, or listed with a reason.
func TestEverySeriesOfTheCatalogue(t *testing.T) {
	emitted := map[string]bool{}
	for _, s := range All() {
		for _, name := range s.Families() {
			emitted[name] = true
		}
	}
	for _, d := range metric.All() {
		if !slices.Contains([]metric.Owner{metric.Exporter, metric.Adapter, metric.Autoscaler}, d.Owner) {
			continue // no state has the MIG agent: it needs a GPU to repartition
		}
		why, excused := absent[d.Name]
		switch {
		case !emitted[d.Name] && !excused:
			t.Errorf("%s: no program emits it in any state", d.Name)
		case emitted[d.Name] && excused:
			t.Errorf("%s is emitted, and yet: %s", d.Name, why)
		}
	}
}

package states

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// fired are the alerts that fire at any time of a state, with their label sets: those whose query has a value at each
// minute of the alert's For.
func fired(t *testing.T, s State, honor bool) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, a := range alerts.All() {
		lines, err := memstore.Server{Data: s.Storage(honor), Engine: engine}.Range(t.Context(), a.Query(), s.Start(), s.End(), time.Minute)
		if err != nil {
			t.Fatalf("%s: %s: %v", s.Name, a.Name, err)
		}
		for _, l := range lines {
			since := l.Points[0].Time
			for i, p := range l.Points {
				if i > 0 && p.Time.Sub(l.Points[i-1].Time) > time.Minute {
					since = p.Time
				}
				if p.Time.Sub(since) >= a.For {
					out[a.Name] = append(out[a.Name], fmt.Sprint(l.Labels))
					break
				}
			}
		}
	}
	return out
}

// In a healthy state no alert fires, in a faulty one only the alerts about its faults, with and without honor_labels.
func TestWhatFiresInEachState(t *testing.T) {
	want := map[string][]string{
		Healthy: nil,
		MIG:     nil,
		Empty:   nil,
		XID:     {"GPUThrottled", "GPUUnhealthy", "GpuscaleHPAWithoutMetric"},
		Down:    {"GpuscaleExporterDown", "GpuscaleSnapshotStale"},
	}
	for _, s := range All() {
		plain, honored := fired(t, s, false), fired(t, s, true)
		if names := slices.Sorted(maps.Keys(plain)); !slices.Equal(names, want[s.Name]) {
			t.Errorf("%s: %q fire, want %q\n%v", s.Name, names, want[s.Name], plain)
		}
		if fmt.Sprint(plain) != fmt.Sprint(honored) {
			t.Errorf("%s: without honor_labels\n%s\nwith it\n%s", s.Name, plain, honored)
		}
	}
}

package alerts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// firedIn are the alerts of a list that fire at any time of a state, each with its
// label sets.
func firedIn(t *testing.T, s states.State, honor bool, list []alerts.Alert) map[string][]string {
	t.Helper()
	return firedOver(t, s, s.Storage(honor), list)
}

// firedOver is firedIn over other series than the state's own.
func firedOver(t *testing.T, s states.State, src storage.Queryable, list []alerts.Alert) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, a := range list {
		w := newWatch(ruleOf(a))
		for at := s.Start(); !at.After(s.End()); at = at.Add(step) {
			firing, err := w.evaluate(t.Context(), src, at)
			if err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			for _, f := range firing {
				if !slices.Contains(out[a.Name], f) {
					out[a.Name] = append(out[a.Name], f)
				}
			}
		}
	}
	return out
}

// In a healthy state nothing fires, in a faulty one only the alerts about its faults;
// Prometheus may scrape either way.
func TestWhatFiresInEachState(t *testing.T) {
	want := map[string][]string{
		states.Healthy: nil,
		states.MIG:     nil,
		states.Empty:   nil,
		states.XID:     {"GPUThrottled", "GPUUnhealthy", "GpuscaleHPAWithoutMetric"},
		states.Down:    {"GpuscaleExporterDown", "GpuscaleSnapshotStale"},
	}
	for _, s := range states.All() {
		var reported []string
		for _, honor := range []bool{false, true} {
			fired := firedIn(t, s, honor, alerts.All())
			var names []string
			for name := range fired {
				names = append(names, name)
			}
			slices.Sort(names)
			if !slices.Equal(names, want[s.Name]) {
				t.Errorf("%s, honor_labels %v: %q fire, want %q\n%v", s.Name, honor, names, want[s.Name], fired)
			}
			reported = append(reported, fmt.Sprint(fired))
		}
		if reported[0] != reported[1] {
			t.Errorf("%s: without honor_labels\n%s\nwith it\n%s", s.Name, reported[0], reported[1])
		}
	}
}

// forgeries are the values that a tenant's page gives the series of our programs.
var forgeries = map[string]func(float64) float64{
	"zero":      func(float64) float64 { return 0 },
	"a million": func(v float64) float64 { return 1e6*v + 1 },
}

// TestForged: a tenant's page that exposes every series of our programs starts no alert and stops none.
func TestForged(t *testing.T) {
	names := []string{states.XID}
	if testall.Enabled() {
		names = append(names, states.Healthy, states.Down)
	}
	for _, name := range names {
		s, _ := states.Find(name)
		for _, honor := range []bool{false, true} {
			want := fmt.Sprint(firedIn(t, s, honor, alerts.All()))
			for values, value := range forgeries {
				if got := fmt.Sprint(firedOver(t, s, s.Forged(honor, value), alerts.All())); got != want {
					t.Errorf("%s, honor_labels %v, forged values: %s:\n%s\nwithout them:\n%s", name, honor, values, got, want)
				}
			}
		}
	}
}

// Every series that an alert reads is emitted in some state: an alert over a series that
// was renamed would never fire, and look healthy.
func TestEverySeriesIsEmitted(t *testing.T) {
	emitted := map[string]bool{}
	for _, s := range states.All() {
		for _, family := range s.Families() {
			emitted[family] = true
		}
	}
	n := 0
	for _, a := range alerts.All() {
		for _, name := range reads(t, ruleOf(a).query) {
			n++
			if !emitted[name] {
				t.Errorf("%s reads %s, which no program emits in any state", a.Name, name)
			}
		}
	}
	if n < len(alerts.All()) {
		t.Errorf("only %d series are read", n)
	}
}

// What an alert reads is in the catalogue, or the scrape's own. Of a counter it reads
// the growth: a rate, or a difference.
func TestEveryNameIsInTheCatalogue(t *testing.T) {
	for _, a := range alerts.All() {
		for _, name := range reads(t, ruleOf(a).query) {
			d, ok := metric.Find(name)
			if !ok {
				if name != "up" {
					t.Errorf("%s reads %s, which no program emits", a.Name, name)
				}
				continue
			}
			query := ruleOf(a).query
			ranged := strings.Contains(query, "rate("+name) || strings.Contains(query, "increase("+name) || strings.Contains(query, "- (last_over_time("+name)
			if ranged && d.Type != metric.Counter {
				t.Errorf("%s takes the rate of %s, a %s", a.Name, name, d.Type)
			}
			if !ranged && d.Type == metric.Counter {
				t.Errorf("%s uses the value of %s, a counter", a.Name, name)
			}
		}
	}
}

package alerts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// firedIn are the alerts of a list that fire at any time of a state, each with its
// label sets.
func firedIn(t *testing.T, s states.State, honor bool, list []alerts.Alert) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	src := s.Storage(honor)
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
		states.XID:     {"GPUThrottled", "GPUUnhealthy", "GPUXIDCritical", "GPUXIDWarning", "GpuscaleHPAWithoutMetric"},
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

// born are the families that begin with their first event, so that their absence is
// healthy. Another family of the same program shows whether it is scraped.
var born = map[string]string{
	metric.GPUXIDErrorsTotal.Name:     metric.GPUHealthy.Name,
	metric.ExporterSeriesDropped.Name: metric.ExporterUp.Name,
	metric.AutoscalerActions.Name:     metric.AutoscalerReconciles.Name,
	metric.AutoscalerHPALimited.Name:  metric.AutoscalerReconciles.Name,
}

// No alert is disabled by missing series: without any family that an alert reads,
// something fires that does not fire with it.
func TestNoAlertIsDisabled(t *testing.T) {
	var watchers []alerts.Alert
	for _, name := range []string{"GpuscaleSeriesMissing", "GpuscaleAdapterDown", "GpuscaleAutoscalerNoLeader"} {
		a, ok := alerts.Find(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		watchers = append(watchers, a)
	}
	dropped := 0
	for _, family := range watched(t) {
		if witness := born[family]; witness != "" {
			family = witness
		}
		dropped++
		var fired []string
		for _, name := range []string{states.Healthy, states.Down} {
			s, _ := states.Find(name)
			if with := firedIn(t, s, true, watchers); len(with) > 0 {
				t.Fatalf("%s: %v fire with all families", name, with)
			}
			for _, labels := range firedIn(t, s.Without(family), true, watchers) {
				fired = append(fired, labels...)
			}
			if len(fired) > 0 {
				break
			}
		}
		if len(fired) == 0 {
			t.Errorf("without %s nothing fires", family)
		}
	}
	if dropped < 25 {
		t.Errorf("only %d families were taken away", dropped)
	}
}

// watched are the families that alerts read, less those that only prove that others
// are missing.
func watched(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, a := range alerts.All() {
		if a.Name != "GpuscaleSeriesMissing" {
			all = append(all, reads(t, ruleOf(a).query)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
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
			if !ranged && d.Type == metric.Counter && a.Name != "GpuscaleSeriesMissing" {
				t.Errorf("%s uses the value of %s, a counter", a.Name, name)
			}
		}
	}
}

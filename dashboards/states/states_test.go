package states_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

var engine = memstore.NewEngine(nil)

// ask evaluates a query at a moment of a state.
func ask(t *testing.T, s states.State, honor bool, query string, at time.Time) promql.Vector {
	t.Helper()
	v, _, err := memstore.Instant(t.Context(), engine, s.Storage(honor), query, at)
	if err != nil {
		t.Fatalf("%s: %s: %v", s.Name, query, err)
	}
	return v
}

func find(t *testing.T, name string) states.State {
	t.Helper()
	s, ok := states.Find(name)
	if !ok {
		t.Fatalf("there is no state %s", name)
	}
	return s
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
	for _, s := range states.All() {
		for _, name := range s.Families() {
			emitted[name] = true
		}
	}
	for _, d := range metric.All() {
		if !slices.Contains([]metric.Owner{metric.Exporter, metric.Adapter, metric.Autoscaler}, d.Owner) {
			continue // the MIG agent is in no state: it needs a GPU to repartition
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

// Each state has what it is for.
func TestWhatTheStatesShow(t *testing.T) {
	minute := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for _, c := range []struct {
		state string
		at    time.Duration
		query string
		want  int // series
	}{
		{states.Healthy, states.Length, `gpu_healthy == 0`, 0},
		{states.Healthy, minute(12), `gpuscale_autoscaler_gpus{state="allocated"} > 15`, 1},
		{states.Healthy, minute(12), `gpuscale_autoscaler_pending_gpus{shape="16"} == 16`, 1},
		{states.Healthy, states.Length, `gpuscale_autoscaler_interruptions_total == 1`, 1},
		{states.Healthy, states.Length, `gpuscale_autoscaler_forecast_gpus`, 3},
		{states.Healthy, states.Length, `gpuscale_autoscaler_gpu_seconds_total{place="idle",tenant="research"} > 600`, 1},
		{states.MIG, minute(9), `sum(gpuscale_autoscaler_actions_total{verb="repartition"}) >= 1`, 1},
		{states.MIG, states.Length, `count(count by (profile) (gpu_instance_info)) >= 5`, 1},
		{states.XID, states.Length, `gpu_xid_errors_total`, 4},
		{states.XID, states.Length, `gpu_healthy == 0`, 1},
		{states.XID, states.Length, `DCGM_FI_DEV_ECC_SBE_VOL_TOTAL > 0`, 2},
		{states.XID, states.Length, `DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS == 1`, 1},
		{states.XID, states.Length, `sum(gpuscale_autoscaler_actions_total{verb="replace"}) == 1`, 1},
		{states.XID, states.Length, `gpuscale_autoscaler_gpus{state="unready"} == 4`, 1},
		{states.Empty, states.Length, `gpu_info or up{job="gpuscale-exporter"} or gpuscale_autoscaler_gpus`, 0},
		{states.Empty, states.Length, `up == 1`, 2},
		{states.Down, minute(9), `up{job="gpuscale-exporter"} == 0`, 0},
		{states.Down, minute(9), `group(gpu_info)`, 1},
		{states.Down, minute(11), `up{job="gpuscale-exporter"} == 1`, 0},
		{states.Down, minute(11), `gpu_info`, 0},
		{states.Down, minute(12), `gpuscale_autoscaler_gpus{state!="unknown"} > 0`, 0},
	} {
		s := find(t, c.state)
		if v := ask(t, s, true, c.query, s.Start().Add(c.at)); len(v) != c.want {
			t.Errorf("%s after %s: %s: %d series, want %d: %v", c.state, c.at, c.query, len(v), c.want, v)
		}
	}
}

// In every state and at every moment the places add up to the capacity.
func TestPlacesAddUpInEveryState(t *testing.T) {
	for _, s := range states.All() {
		for at := s.Start(); !at.After(s.End()); at = at.Add(time.Minute) {
			sums := ask(t, s, true, `sum by (pool, model) (gpuscale_autoscaler_gpu_seconds_total) - sum by (pool, model) (gpuscale_autoscaler_capacity_gpu_seconds_total)`, at)
			for _, v := range sums {
				if math.Abs(v.F) > 1e-6 {
					t.Errorf("%s at %s: %s is off by %v", s.Name, at.Format(time.TimeOnly), v.Metric, v.F)
				}
			}
			if s.Name != states.Empty && len(sums) == 0 {
				t.Errorf("%s at %s: no capacity", s.Name, at.Format(time.TimeOnly))
			}
		}
	}
}

package states_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
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

// The same series are there both ways, under the names that Prometheus gives them.
func TestBothWaysOfScraping(t *testing.T) {
	s := find(t, states.Healthy)
	for honor, label := range map[bool]string{true: "namespace", false: "exported_namespace"} {
		for name, want := range map[string]int{`gpu_held{%s="chat"}`: 4, `gpuscale_autoscaler_hpa_replicas{%s="research",kind="max"}`: 1} {
			if v := ask(t, s, honor, fmt.Sprintf(name, label), s.End()); len(v) != want {
				t.Errorf("honor_labels %v: %s: %d series, want %d", honor, fmt.Sprintf(name, label), len(v), want)
			}
		}
	}
	// A free GPU has no namespace of its own, so it has the target's.
	query := `count(gpu_busy_ratio{namespace="gpuscale-system"})`
	if v := ask(t, s, true, query, s.End()); len(v) != 1 {
		t.Errorf("%s: %v", query, v)
	}
	if a, b := ask(t, s, true, `count({__name__=~".+"})`, s.End()), ask(t, s, false, `count({__name__=~".+"})`, s.End()); a[0].F != b[0].F {
		t.Errorf("%v series with honor_labels, %v without", a[0].F, b[0].F)
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

// Every histogram is consistent: buckets are cumulative, the largest has all, and one
// shrinks only with all others, at a restart of its program.
func TestHistograms(t *testing.T) {
	for _, s := range states.All() {
		for _, family := range s.Families() {
			buckets := family + "_bucket"
			if len(ask(t, s, true, `count(`+buckets+`)`, s.End())) == 0 {
				continue
			}
			for at := s.Start(); !at.After(s.End()); at = at.Add(time.Minute) {
				if count := ask(t, s, true, buckets+`{le="+Inf"} != ignoring (le) `+family+`_count`, at); len(count) > 0 {
					t.Errorf("%s at %s: %s: the last bucket is not the count: %v", s.Name, at.Format(time.TimeOnly), family, count)
				}
				byLabels := map[string][]bucket{}
				for _, v := range ask(t, s, true, buckets, at) {
					le, err := strconv.ParseFloat(v.Metric.Get("le"), 64)
					if err != nil {
						t.Fatal(err)
					}
					key := v.Metric.MatchLabels(false, "le").String()
					byLabels[key] = append(byLabels[key], bucket{le, v.F})
				}
				for key, all := range byLabels {
					slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
					if !slices.IsSortedFunc(all, func(a, b bucket) int { return cmp.Compare(a.n, b.n) }) {
						t.Errorf("%s at %s: %s: %v", s.Name, at.Format(time.TimeOnly), key, all)
					}
				}
			}
			query := fmt.Sprintf(`resets(%[1]s[%[2]s]) != ignoring (le) group_left () resets(%[1]s{le="+Inf"}[%[2]s])`, buckets, states.Length)
			if shrunk := ask(t, s, true, query, s.End()); len(shrunk) > 0 {
				t.Errorf("%s: %s shrank, and not as a whole: %v", s.Name, family, shrunk)
			}
		}
	}
}

type bucket struct{ le, n float64 }

package ledger_test

import (
	stdcontext "context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/ledger"
)

type promLine = prom.Line

func context() stdcontext.Context { return stdcontext.Background() }

// TestGrowth: growth over resets, gaps and late starts.
func TestGrowth(t *testing.T) {
	n := math.NaN()
	for _, c := range []struct {
		name   string
		values []float64
		known  int
		want   []float64
		begun  []int
	}{
		{"steady", []float64{5, 6, 8}, 0, []float64{0, 1, 2}, nil},
		{"there from the beginning: what it had before is not ours", []float64{500, 501}, 0, []float64{0, 1}, nil},
		{"appears later than others: it began at zero", []float64{n, 3, 4}, 0, []float64{0, 3, 1}, []int{1}},
		{"appears with the first others", []float64{n, 300, 301}, 1, []float64{0, 0, 1}, nil},
		{"began again", []float64{100, 2, 4}, 0, []float64{0, 2, 2}, []int{1}},
		{"went on over a hole", []float64{0, n, n, 6}, 0, []float64{0, 2, 2, 2}, nil},
		{"began again in a hole", []float64{50, n, 3}, 0, []float64{0, 0, 3}, []int{2}},
		{"gone", []float64{1, 2, n}, 0, []float64{0, 1, 0}, nil},
	} {
		got, begun := ledger.Growth(c.values, c.known)
		if !slices.Equal(got, c.want) || !slices.Equal(begun, c.begun) {
			t.Errorf("%s: %v begun %v, want %v begun %v", c.name, got, begun, c.want, c.begun)
		}
	}
}

// played runs an idle hour, then the event, then another hour.
func played(c *fixture.Cluster, happen func()) *fixture.Cluster {
	hour := func() {
		for range 120 {
			c.Tick()
		}
	}
	begin(c)
	hour()
	happen()
	hour()
	return c
}

func hours(c *fixture.Cluster, n float64) {
	for range int(n * 120) {
		c.Tick()
	}
}

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by {
		t.Errorf("%s: %.1f, want %.1f", what, got, want)
	}
}

// TestHoles: two hours without a component, between two idle ones. Time without a count
// is unknown, not free, and nothing is counted twice.
func TestHoles(t *testing.T) {
	const hour = 3600.0
	autoscalerDown := func(c *fixture.Cluster) { c.Replica = 0; hours(c, 2); c.Replica = 1 }
	for _, c := range []struct {
		name        string
		exporter    bool
		happen      func(c *fixture.Cluster)
		unknown, by float64 // seconds
		busy        float64 // share of what there was; 0 is not judged
		exporters   float64 // seconds
		gaps        int
	}{
		{name: "a counter bridges what Prometheus did not scrape", happen: func(c *fixture.Cluster) { c.Blind = true; hours(c, 2); c.Blind = false }, by: 1, busy: 1},
		{name: "no exporter, and the autoscaler was down", happen: autoscalerDown, unknown: 3 * 2 * hour, by: 400, busy: 0.5, gaps: 1},
		{name: "the exporter fills in", exporter: true, happen: autoscalerDown, by: 400, busy: 1, exporters: 2 * hour},
		{name: "the autoscaler restarts while nothing is scraped", unknown: 3 * hour, by: 400, happen: func(c *fixture.Cluster) {
			c.Blind = true
			hours(c, 1)
			c.RestartAutoscaler()
			hours(c, 1)
			c.Blind = false
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := small()
			cluster.NoExporter = !c.exporter
			played(cluster, func() { c.happen(cluster) })
			l := read(t, cluster, time.Minute)
			total := l.Total()
			near(t, "unknown", total[ledger.Unknown], c.unknown, c.by)
			near(t, "capacity", l.Capacity, 3*4*hour, 120)
			near(t, "seconds from the exporter", l.FromExporter, c.exporters, 200)
			if c.busy > 0 {
				near(t, "busy", total[ledger.Busy], c.busy*cluster.Counted["busy"], 300)
			}
			if c.gaps > 0 && (len(l.Gaps) != c.gaps || l.Gaps[0].To.Sub(l.Gaps[0].From) < 115*time.Minute) {
				t.Errorf("gaps %v, want one of two hours", l.Gaps)
			}
		})
	}
}

// TestAChangedLabelIsNoTime: the target's instance label changes, and all counters
// appear again with a week in them.
func TestAChangedLabelIsNoTime(t *testing.T) {
	c := small()
	c.NoExporter = true
	begin(c)
	hours(c, 3)
	end := c.Now
	// What the second replica shows is the first's own ledger, gone on with.
	c.Rename = true
	hours(c, 1)
	if c.Now.Sub(end) != time.Hour {
		t.Fatal("the clock")
	}
	l := read(t, c, time.Minute)
	near(t, "capacity", l.Capacity, 3*4*3600, 400)
}

// TestARemovedNodeIsNoHole: it is unknown for an hour, then gone.
func TestARemovedNodeIsNoHole(t *testing.T) {
	c := small()
	c.NoAutoscaler = true
	begin(c)
	hours(c, 2)
	c.Nodes = c.Nodes[1:]
	hours(c, 4)
	l := read(t, c, time.Minute)
	near(t, "unknown", l.Total()[ledger.Unknown], 2*3600, 700)
	near(t, "capacity", l.Capacity, 6*3600+2*2*3600+2*3600, 700)
}

// TestPart is how much of a GPU an instance is.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		model, profile string
		want           float64
	}{
		{h100, "", 1}, {h100, "3g.40gb", 3.0 / 7}, {"NVIDIA A30", "1g.6gb", 1.0 / 4}, {"unknown model", "2g.10gb", 2.0 / 7}, {h100, "no profile", 1}, {h100, "7g.80gb", 1},
	} {
		if got := ledger.Part(c.model, c.profile); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s of %s: %v, want %v", c.profile, c.model, got, c.want)
		}
	}
}

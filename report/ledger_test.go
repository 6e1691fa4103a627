package main

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// TestGrown: growth over resets, gaps and late starts.
func TestGrown(t *testing.T) {
	n := math.NaN()
	for _, c := range []struct {
		name   string
		values []float64
		known  int
		want   float64
	}{
		{"steady", []float64{5, 6, 8}, 0, 3},
		{"there from the beginning: what it had before is not ours", []float64{500, 501}, 0, 1},
		{"appears later than others: it began at zero", []float64{n, 3, 4}, 0, 4},
		{"appears with the first others", []float64{n, 300, 301}, 1, 1},
		{"began again", []float64{100, 2, 4}, 0, 4},
		{"went on over a hole", []float64{0, n, n, 6}, 0, 6},
		{"began again in a hole", []float64{50, n, 3}, 0, 3},
		{"gone", []float64{1, 2, n}, 0, 1},
	} {
		if got := ledger.Grown(c.values, c.known); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// sound returns an error if a time is negative, or if the places do not add up to the capacity.
func sound(l ledger.Ledger) error {
	for _, r := range l.Rows {
		for p, v := range r.Time {
			if v < 0 || math.IsNaN(v) {
				return fmt.Errorf("%s of %+v is %g", ledger.Place(p), r.Key, v)
			}
		}
	}
	if sum := l.Total().Sum(); max(l.Over, math.Abs(sum-l.Capacity)) > ledger.Tolerance*l.Capacity {
		return fmt.Errorf("the places add up to %.0f GPU-seconds, the capacity is %.0f, of them %.0f in excess", sum, l.Capacity, l.Over)
	}
	return nil
}

func hours(c *Cluster, n float64) {
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

// TestHoles: two hours without a component, between two idle ones. Time without a count is unknown, not free, and is
// not counted twice.
func TestHoles(t *testing.T) {
	const hour = 3600.0
	autoscalerDown := func(c *Cluster) { c.Replica = 0; hours(c, 2); c.Replica = 1 }
	for _, c := range []struct {
		name        string
		exporter    bool
		happen      func(c *Cluster)
		unknown, by float64 // seconds
		busy        float64 // share of the known time; 0 is not checked
		exporters   float64 // seconds
		gaps        int
	}{
		{name: "a counter bridges what Prometheus did not scrape", happen: func(c *Cluster) { c.Blind = true; hours(c, 2); c.Blind = false }, by: 1, busy: 1},
		{name: "no exporter, and the autoscaler was down", happen: autoscalerDown, unknown: 3 * 2 * hour, by: 400, busy: 0.5, gaps: 1},
		{name: "the exporter fills in", exporter: true, happen: autoscalerDown, by: 400, busy: 1, exporters: 2 * hour},
		{name: "the autoscaler restarts while nothing is scraped", unknown: 3 * hour, by: 400, happen: func(c *Cluster) {
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
			begin(cluster)
			hours(cluster, 1)
			c.happen(cluster)
			hours(cluster, 1)
			l := read(t, cluster, time.Minute)
			total := l.Total()
			near(t, "unknown", total[ledger.Unknown], c.unknown, c.by)
			near(t, "capacity", l.Capacity, 3*4*hour, 120)
			near(t, "seconds from the exporter", l.FromExporter, c.exporters, 200)
			if c.busy > 0 {
				near(t, "busy", total[ledger.Busy], c.busy*cluster.Counted["busy"], 300)
			}
			if c.gaps > 0 && (len(l.Gaps) != c.gaps || l.Gaps[0].Until.Sub(l.Gaps[0].From) < 115*time.Minute) {
				t.Errorf("gaps %v, want one of two hours", l.Gaps)
			}
		})
	}
}

// TestAChangedLabelIsNoTime: the target's instance label changes, and all counters appear again with the growth of a
// week.
func TestAChangedLabelIsNoTime(t *testing.T) {
	c := small()
	c.NoExporter = true
	begin(c)
	hours(c, 3)
	c.Rename = true
	hours(c, 1)
	l := read(t, c, time.Minute)
	near(t, "capacity", l.Capacity, 3*4*3600, 400)
}

// TestPlacesWithoutTheirCapacity: places without a capacity, on any scraped page or of a replica whose capacity was not
// answered, are not counted.
func TestPlacesWithoutTheirCapacity(t *testing.T) {
	c := small()
	c.NoExporter = true
	begin(c)
	hours(c, 1)
	page := labels.FromStrings("job", "x", "instance", "x:1", "namespace", "tenant", "pod", "x")
	for i := range 120 {
		c.Tick()
		c.Prometheus.Scrape(c.Now, page, c.Honor, []Exposed{exposed(metric.AutoscalerGPUSeconds.Name, float64(30*i), metric.LabelPool, "whole", metric.LabelModel, "H100-80GB",
			metric.LabelTenant, metric.NotApplicable, metric.LabelNamespace, metric.NotApplicable, metric.LabelPlace, "sick")})
	}
	l := read(t, c, time.Minute)
	near(t, "capacity", l.Capacity, 2*3*3600, 400)
	near(t, "sick", l.Total()[ledger.Sick], 0, 0)
}

// TestARemovedNodeIsNoHole: a removed node is unknown for an hour, then gone.
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

// TestLongSteps: the hours of pods that live as long as a step of a long window are those of short steps. Use is
// measured while the pod exists, not over the step before.
func TestLongSteps(t *testing.T) {
	c := small()
	c.NoAutoscaler = true
	c.Step = 2 * time.Minute
	begin(c)
	end := start.Add(8 * 24 * time.Hour)
	for begun := start; begun.Before(end); {
		begun = c.Now
		c.Holds["GPU-2"] = Hold{Namespace: "jobs", Pod: fmt.Sprint("job-", begun.Unix()), Busy: 1}
		for c.Now.Before(begun.Add(190 * time.Minute)) {
			c.Tick()
		}
		delete(c.Holds, "GPU-2")
		for c.Now.Before(begun.Add(266 * time.Minute)) {
			c.Tick()
		}
	}
	for _, step := range []time.Duration{5 * time.Minute, time.Hour, 2 * time.Hour} {
		for _, r := range read(t, c, step).Rows {
			if r.Namespace != "jobs" {
				continue
			}
			near(t, "percent of the allocated time that computes, in steps of "+step.String(), 100*r.Time[ledger.Busy]/r.Time.Allocated(), 100, 5)
		}
	}
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

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const h100 = "NVIDIA H100 80GB HBM3"

// small is two whole GPUs and one MIG GPU on two nodes.
func small() *Cluster {
	c := newCluster(start.Add(-10*time.Minute), 30*time.Second)
	layout := []Instance{{ID: "1", Profile: "3g.40gb", Start: 0, Size: 4, Compute: 3}, {ID: "5", Profile: "2g.20gb", Start: 4, Size: 2, Compute: 2}}
	c.Nodes = []*Node{
		{Name: "n1", Pool: "whole", Model: h100, GPUs: []*GPU{{UUID: "GPU-1"}, {UUID: "GPU-2"}}},
		{Name: "n2", Pool: "layout", Model: h100, GPUs: []*GPU{{UUID: "GPU-3", Instances: layout}}},
	}
	c.Holds["GPU-1"] = Hold{Tenant: "research", Namespace: "train", Pod: "job-0", Busy: 0.75}
	c.Holds["GPU-3/1"] = Hold{Tenant: "product", Namespace: "chat", Pod: "vllm-0", Busy: 0.5}
	return c
}

// begin advances the cluster to the beginning of the window.
func begin(c *Cluster) {
	for c.Now.Before(start) {
		c.Tick()
	}
	clear(c.Counted)
}

// read sends the queries of the ledger, and no others, over the simulated hours.
func read(t require.T, c *Cluster, step time.Duration) ledger.Ledger {
	w, err := query.NewWindow(c.Now, c.Now.Sub(start))
	require.NoError(t, err)
	w.Step, w.Ledger, w.Scrape = step, step, c.Step
	a := query.Answers{Window: w, Dialect: query.Dialect{ExporterMoved: !c.Honor, AutoscalerMoved: !c.Honor}, Lines: map[query.ID][]prom.Line{}}
	var sources []query.Source
	if !c.NoExporter {
		sources = append(sources, query.FromExporter)
	}
	if !c.NoAutoscaler {
		sources = append(sources, query.FromAutoscaler)
	}
	for _, ask := range a.Dialect.Asks(w, sources...) {
		if ask.Kind != query.Fine && ask.Kind != query.Ledger {
			continue
		}
		lines, err := c.Prometheus.Range(context.Background(), ask.PromQL, w.From, w.Until, step)
		if err != nil {
			t.Fatal(ask.ID, err)
		}
		a.Lines[ask.ID] = lines
	}
	return ledger.Make(a)
}

// TestNothingIsLostOrInvented simulates restarts of the autoscaler, changes of its leader, outages of Prometheus, the
// autoscaler and an exporter, sick GPUs, repartitions, and pods that come and go. The places always add up to the
// capacity, the capacity is correct, and time without a sample is unknown: no other place gets more than it had. The
// same is true of the exporter without an autoscaler.
func TestNothingIsLostOrInvented(t *testing.T) {
	for _, c := range []struct {
		exporter    bool
		over, slack float64 // scrapes that may be too much, where the ledger's check fails; ratio
	}{
		{false, 3, 0.01},           // a replica's start is known to within one scrape, of three GPUs
		{true, math.Inf(-1), 0.05}, // a rate looks back over some scrapes: for that long, a change is in the wrong place
	} {
		rapid.Check(t, func(t *rapid.T) {
			cluster := small()
			cluster.Honor = rapid.Bool().Draw(t, "honor labels")
			cluster.NoExporter, cluster.NoAutoscaler = !c.exporter, c.exporter
			play(t, cluster, 4*time.Hour)
			l := read(t, cluster, time.Minute)
			if err := sound(l); err != nil && l.Over > c.over*cluster.Step.Seconds() {
				t.Fatal(err)
			}
			compare(t, cluster, l, c.slack)
		})
	}
}

// play makes random changes in each quarter of an hour.
func play(t *rapid.T, c *Cluster, length time.Duration) {
	begin(c)
	n1, n2 := c.Nodes[0], c.Nodes[1]
	whole := n2.GPUs[0].Instances
	for c.Now.Before(start.Add(length)) {
		// The first and the last quarter are idle: the time before and after is unknown.
		idle := c.Now.Equal(start) || !c.Now.Before(start.Add(length-15*time.Minute))
		event := 0
		if !idle {
			event = rapid.IntRange(0, 9).Draw(t, "event")
		}
		c.Blind, n1.Stale = false, false
		if c.Replica == 0 {
			c.Replica = 1
		}
		switch event {
		case 1:
			c.Blind = true
		case 2:
			c.RestartAutoscaler()
		case 3:
			c.Replica = 3 - c.Replica
		case 4:
			c.Replica = 0
		case 5:
			n1.Stale = true
		case 6:
			n1.GPUs[1].Sick = !n1.GPUs[1].Sick
		case 7:
			delete(c.Holds, "GPU-3/5")
			if len(n2.GPUs[0].Instances) == 2 {
				n2.GPUs[0].Instances = whole[:1]
			} else {
				n2.GPUs[0].Instances = whole
			}
		case 8:
			if _, allocated := c.Holds["GPU-2"]; allocated {
				delete(c.Holds, "GPU-2")
			} else {
				c.Holds["GPU-2"] = Hold{Tenant: "research", Namespace: "notebooks", Pod: "anna-0"}
			}
		case 9:
			c.Blind = true
			c.RestartAutoscaler()
			c.RestartExporter(n1)
		}
		for range 30 {
			c.Tick()
		}
	}
}

// compare checks the ledger against the cluster's own counts.
func compare(t *rapid.T, c *Cluster, l ledger.Ledger, slack float64) {
	sum := 0.0
	for _, v := range c.Counted {
		sum += v
	}
	if math.Abs(l.Capacity-sum) > 0.01*sum {
		t.Fatalf("capacity %.0f s, there were %.0f", l.Capacity, sum)
	}
	total := l.Total()
	for p := range ledger.NumPlaces {
		had := c.Counted[p.String()]
		if p == ledger.Unknown || c.NoAutoscaler && p == ledger.Unmeasured {
			continue // an allocation outlives its rate by Prometheus' lookback of five minutes
		}
		if c.NoAutoscaler && p == ledger.Free {
			// The exporter does not distinguish these.
			had += c.Counted["fragmented"] + c.Counted["stranded"]
		}
		if total[p] > had+slack*sum {
			t.Fatalf("%.0f s %s, there were %.0f", total[p], p, had)
		}
	}
}

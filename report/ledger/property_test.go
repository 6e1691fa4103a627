package ledger_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const h100 = "NVIDIA H100 80GB HBM3"

// small is two whole GPUs and one MIG GPU on two nodes.
func small() *fixture.Cluster {
	c := fixture.NewCluster(start.Add(-10*time.Minute), 30*time.Second)
	layout := []fixture.Instance{{ID: "1", Profile: "3g.40gb", Start: 0, Size: 4, Compute: 3}, {ID: "5", Profile: "2g.20gb", Start: 4, Size: 2, Compute: 2}}
	c.Nodes = []*fixture.Node{
		{Name: "n1", Pool: "whole", Model: h100, GPUs: []*fixture.GPU{{UUID: "GPU-1"}, {UUID: "GPU-2"}}},
		{Name: "n2", Pool: "layout", Model: h100, GPUs: []*fixture.GPU{{UUID: "GPU-3", Instances: layout}}},
	}
	c.Holds["GPU-1"] = fixture.Hold{Tenant: "research", Namespace: "train", Pod: "job-0", Busy: 0.75}
	c.Holds["GPU-3/1"] = fixture.Hold{Tenant: "product", Namespace: "chat", Pod: "vllm-0", Busy: 0.5}
	return c
}

// begin lets the time before the window pass.
func begin(c *fixture.Cluster) {
	for c.Now.Before(start) {
		c.Tick()
	}
	clear(c.Counted)
}

// read asks the queries of the ledger, and no others, over the hours played.
func read(t interface{ Fatal(...any) }, c *fixture.Cluster, step time.Duration) ledger.Ledger {
	w, err := query.NewWindow(c.Now, c.Now.Sub(start))
	if err != nil {
		t.Fatal(err)
	}
	w.Step, w.Ledger, w.Scrape = step, step, c.Step
	a := query.Answers{Window: w, Dialect: query.Dialect{ExporterMoved: !c.Honor, AutoscalerMoved: !c.Honor}, Lines: map[query.ID][]promLine{}}
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
		lines, err := c.Prometheus.Range(context(), ask.PromQL, w.From, w.Until, step)
		if err != nil {
			t.Fatal(ask.ID, err)
		}
		a.Lines[ask.ID] = lines
	}
	return ledger.Make(a)
}

// TestNothingIsLostOrInvented plays restarts of the autoscaler, changes of its leader,
// outages of Prometheus, the autoscaler and an exporter, sick GPUs, repartitions, pods
// that come and go. The places always add up to the capacity, the capacity is correct,
// and time without a sample is unknown: no other place gets more than it had.
func TestNothingIsLostOrInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small()
		c.Honor = rapid.Bool().Draw(t, "honor labels")
		c.NoExporter = true
		play(t, c, 4*time.Hour)
		l := read(t, c, time.Minute)
		// A replica's start is known to within one scrape, of three GPUs.
		if err := l.Check(); err != nil && l.Over > 3*c.Step.Seconds() {
			t.Fatal(err)
		}
		compare(t, c, l, 0.01)
	})
}

// TestExporterAlone is the same without an autoscaler.
func TestExporterAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := small()
		c.Honor = rapid.Bool().Draw(t, "honor labels")
		c.NoAutoscaler = true
		play(t, c, 4*time.Hour)
		l := read(t, c, time.Minute)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		// A rate looks back over some scrapes, so what begins or ends is in the
		// wrong place for as long.
		compare(t, c, l, 0.05)
	})
}

// play draws what happens in each quarter of an hour.
func play(t *rapid.T, c *fixture.Cluster, length time.Duration) {
	begin(c)
	n1, n2 := c.Nodes[0], c.Nodes[1]
	whole := n2.GPUs[0].Instances
	for c.Now.Before(start.Add(length)) {
		// The first and the last quarter are idle: nothing is known of the time before
		// and after.
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
				c.Holds["GPU-2"] = fixture.Hold{Tenant: "research", Namespace: "notebooks", Pod: "anna-0"}
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

// compare checks the ledger against what the cluster itself has counted.
func compare(t *rapid.T, c *fixture.Cluster, l ledger.Ledger, slack float64) {
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

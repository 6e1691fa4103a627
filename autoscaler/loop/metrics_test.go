package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fleetSeries is how many series of the fleet are there.
func fleetSeries(t *testing.T, r *rig) int {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "gpuscale_autoscaler_gpus") || strings.HasPrefix(name, "gpuscale_autoscaler_pod_wait") || name == "gpuscale_autoscaler_decision_seconds" {
			n += len(f.GetMetric())
		}
	}
	return n
}

// The fleet is the leader's to show: who does not lead, or does no more, shows none.
func TestOnlyTheLeaderShowsTheFleet(t *testing.T) {
	r := newRig(t, onePending+"node n pool=p\n", func(o *Options) { o.Interval = time.Hour })
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series before it leads", n)
	}
	rounds := make(chan struct{}, 1)
	r.loop.o.Publisher = publisher(func() { rounds <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.loop.Run(ctx) }()
	<-rounds
	if n := fleetSeries(t, r); n == 0 {
		t.Error("the leader shows none")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series after it led", n)
	}
}

// What was asked for and is not there yet is told apart from what is there and not
// ready.
func TestNodesOfAPool(t *testing.T) {
	r := newRig(t, `
tick at=2026-11-21T09:00:00Z
pool p max=9 target=5 size=3 gpus=1 model=L40S no-mig
node a pool=p
node b pool=p unready
node c pool=p
`, nil)
	if err := r.loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_pool_nodes Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of what was asked for and does not exist yet.
# TYPE gpuscale_autoscaler_pool_nodes gauge
gpuscale_autoscaler_pool_nodes{kind="max",pool="p"} 9
gpuscale_autoscaler_pool_nodes{kind="min",pool="p"} 0
gpuscale_autoscaler_pool_nodes{kind="ready",pool="p"} 2
gpuscale_autoscaler_pool_nodes{kind="size",pool="p"} 3
gpuscale_autoscaler_pool_nodes{kind="target",pool="p"} 5
gpuscale_autoscaler_pool_nodes{kind="unready",pool="p"} 1
gpuscale_autoscaler_pool_nodes{kind="upcoming",pool="p"} 2
`), "gpuscale_autoscaler_pool_nodes"); err != nil {
		t.Error(err)
	}
}

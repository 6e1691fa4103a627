package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/plan"
)

// fleetSeries counts the series of package fleet.
func fleetSeries(t *testing.T, r *rig) int {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "gpuscale_autoscaler_gpus") || strings.HasPrefix(name, "gpuscale_autoscaler_pod_pending") || name == "gpuscale_autoscaler_decision_seconds" {
			n += len(f.GetMetric())
		}
	}
	return n
}

// TestOnlyTheLeaderExportsTheFleet: a replica has series of the fleet only while it leads.
func TestOnlyTheLeaderExportsTheFleet(t *testing.T) {
	r := newRig(t, onePending+"node n pool=p\n", func(o *Options) { o.Interval = time.Hour })
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series before it leads", n)
	}
	reconciles := make(chan struct{}, 1)
	r.loop.o.Publisher = publishFunc(func() { reconciles <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.loop.Run(ctx) }()
	<-reconciles
	if n := fleetSeries(t, r); n == 0 {
		t.Error("the leader has no series")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series after it led", n)
	}
}

// TestNodesOfAPool: upcoming nodes are counted apart from unready ones, and a fixed pool
// has no min and max.
func TestNodesOfAPool(t *testing.T) {
	r := newRig(t, `
tick at=2026-11-21T09:00:00Z
pool p max=9 target=5 size=3 gpus=1 model=L40S no-mig
node a pool=p
node b pool=p unready
node c pool=p
`, nil)
	r.world.State.Pools = append(r.world.State.Pools, plan.Pool{Name: "q", Fixed: true, Min: 2, Max: 2, Target: 2, Size: 2})
	if err := r.loop.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_pool_nodes Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of those that were requested and do not exist yet.
# TYPE gpuscale_autoscaler_pool_nodes gauge
gpuscale_autoscaler_pool_nodes{kind="max",pool="p"} 9
gpuscale_autoscaler_pool_nodes{kind="min",pool="p"} 0
gpuscale_autoscaler_pool_nodes{kind="ready",pool="p"} 2
gpuscale_autoscaler_pool_nodes{kind="ready",pool="q"} 0
gpuscale_autoscaler_pool_nodes{kind="size",pool="p"} 3
gpuscale_autoscaler_pool_nodes{kind="size",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="target",pool="p"} 5
gpuscale_autoscaler_pool_nodes{kind="target",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="unready",pool="p"} 1
gpuscale_autoscaler_pool_nodes{kind="unready",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="upcoming",pool="p"} 2
gpuscale_autoscaler_pool_nodes{kind="upcoming",pool="q"} 0
`), "gpuscale_autoscaler_pool_nodes"); err != nil {
		t.Error(err)
	}
}

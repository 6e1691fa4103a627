package loop

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// twoPools: pod chat/a needs a node of p, whatever is wrong in q, whose node q-1 has long been empty.
const twoPools = `
tick at=2026-11-21T09:00:00Z
policy scale-down-cooldown=0s
pool p max=4 price=2 gpus=1 model=H100-80GB labels=(of=p)
pool q max=4 price=2 gpus=1 model=H100-80GB labels=(of=q) idle-after=10m
node q-1 pool=q age=5h gpus=1 model=H100-80GB idle=20m
node q-2 pool=q age=5h gpus=1 model=H100-80GB
pod chat/a requests=gpu pending=10s selector=(of=p)
pod chat/b requests=gpu node=q-2
`

// pendingInQ are pods that fit the nodes of q.
const pendingInQ = "pod chat/c requests=gpu pending=10s selector=(of=q)\n"

// TestOneInvalidObject: an object that does not pass the planner's check keeps no other from being planned for. The log
// names it with its field, a metric counts it, and it does not count as free, unneeded or unlimited.
func TestOneInvalidObject(t *testing.T) {
	tenant := func(name, parent string) plan.Tenant {
		return plan.Tenant{Tenant: quota.Tenant{Name: name, Parent: parent, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}}
	}
	for name, test := range map[string]struct {
		more    string
		spoil   func(*plan.Snapshot)
		actions []string
		log     string
		kind    plan.Kind
		verdict string // of chat/c
	}{
		"none": {actions: []string{"scale-up p", "remove-node q q-1"}},
		"a pool is not scaled down": {
			spoil: func(s *plan.Snapshot) { s.Pools[1].IdleAfter = -time.Minute }, kind: plan.KindPool,
			actions: []string{"scale-up p"}, log: "kind=pool name=q err=\"pools[q].idleAfter: is negative: -60000000000\"",
		},
		"of two pools of one name the first counts": {
			spoil: func(s *plan.Snapshot) { s.Pools = append(s.Pools, plan.Pool{Name: "q", Max: 9}) }, kind: plan.KindPool,
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "pools[q]: occurs twice",
		},
		"an empty node is not removed, and is not free": {
			more: pendingInQ, spoil: func(s *plan.Snapshot) { s.Nodes[0].CPUMilli = -1 }, kind: plan.KindNode,
			actions: []string{"scale-up p", "scale-up q"}, log: "nodes[q-1].cpuMilli: is negative", verdict: "WaitUpcomingNode",
		},
		"a node whose resources are negative": {
			more: pendingInQ, spoil: func(s *plan.Snapshot) { s.Nodes[0].Others = []plan.Resource{{Name: "rdma/hca", Amount: -1}} }, kind: plan.KindNode,
			actions: []string{"scale-up p", "scale-up q"}, log: "nodes[q-1].others[rdma/hca]: is negative: -1", verdict: "WaitUpcomingNode",
		},
		"a running pod's node is not free": {
			more: pendingInQ, spoil: func(s *plan.Snapshot) { s.Nodes, s.Pods[1].Demand.GPUs = s.Nodes[1:], -1 }, kind: plan.KindPod,
			actions: []string{"scale-up p", "scale-up q"}, log: "pods[chat/b].demand.gpus: is negative", verdict: "WaitUpcomingNode",
		},
		"a pending pod gets the reason": {
			more: pendingInQ, spoil: func(s *plan.Snapshot) { s.Pods[2].CPUMilli = -1 }, kind: plan.KindPod,
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "pods[chat/c].cpuMilli: is negative", verdict: "DemandUnreadable pods[chat/c].cpuMilli: is negative: -1",
		},
		"a pod adds nothing to a node": {
			more: pendingInQ, spoil: func(s *plan.Snapshot) { s.Pods[2].Others = []plan.Resource{{Name: "rdma/hca", Amount: -1}} }, kind: plan.KindPod,
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "pods[chat/c].others[rdma/hca]: is negative: -1", verdict: "DemandUnreadable",
		},
		"a tenant gets nothing more": {
			more: pendingInQ, kind: plan.KindTenant,
			spoil: func(s *plan.Snapshot) {
				s.Tenants = []plan.Tenant{tenant("x", "y"), tenant("y", "x")}
				s.Pods[2].Tenant = "x"
			},
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "tenants are in a cycle of parents", verdict: "QuotaExceeded",
		},
		"a tenant by itself": {
			more: pendingInQ, kind: plan.KindTenant,
			spoil: func(s *plan.Snapshot) {
				s.Tenants = []plan.Tenant{tenant("x", ""), tenant("y", "")}
				s.Tenants[0].ReclaimIdle, s.Tenants[1].Guarantee = -1, quota.Amount{Compute: 7, Memory: 8}
				s.Pods[0].Tenant, s.Pods[2].Tenant = "y", "x"
			},
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "kind=tenant name=x err=\"tenants[x].reclaimIdle: is negative: -1\"", verdict: "QuotaExceeded",
		},
		"a forecast": {
			spoil: func(s *plan.Snapshot) { s.Forecasts = []plan.Forecast{{Name: "chat/f"}} }, kind: plan.KindForecast,
			actions: []string{"scale-up p", "remove-node q q-1"}, log: "kind=forecast name=chat/f",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			r := newRig(t, twoPools+test.more, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			if test.spoil != nil {
				test.spoil(&r.world.State)
			}
			require.NoError(t, r.loop.Once(t.Context()))
			last, _ := r.loop.State.Last()
			var did []string
			for _, a := range last.Plan.Actions {
				did = append(did, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Verb, a.Pool, a.Node)))
			}
			if !slices.Equal(did, test.actions) {
				t.Errorf("actions %q, want %q\n%s", did, test.actions, scenario.Print(last.Snapshot))
			}
			if !strings.Contains(log.String(), test.log) || strings.Contains(log.String(), "left out") != (test.log != "") {
				t.Errorf("log %s, want %q", &log, test.log)
			}
			for _, v := range last.Plan.Verdicts {
				if got := string(v.Reason) + " " + v.Detail; v.Subject == "chat/c" && !strings.HasPrefix(got, test.verdict) {
					t.Errorf("chat/c: %s, want %s", got, test.verdict)
				}
			}
			invalid := metric.AutoscalerInvalidObjects
			want := fmt.Sprintf("# HELP %s %s\n# TYPE %[1]s gauge\n", invalid.Name, invalid.Help)
			for _, kind := range []plan.Kind{plan.KindForecast, plan.KindNode, plan.KindPod, plan.KindPool, plan.KindTenant} {
				n := 0
				if kind == test.kind {
					n = 1
				}
				want += fmt.Sprintf("%s{kind=%q} %d\n", invalid.Name, kind, n)
			}
			require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(want), invalid.Name))
		})
	}
}

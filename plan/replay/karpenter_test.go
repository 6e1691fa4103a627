package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// reported prints a plan in words.
func reported(p plan.Plan) string {
	var all []string
	for _, a := range p.Actions {
		text := string(a.Verb) + " " + a.Node
		if a.Verb == plan.ScaleUp {
			text = fmt.Sprintf("%s to %d", a.Pool, a.To)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// moment is a time with a change, and what a policy then does, in words.
type moment struct {
	at     time.Duration
	want   string
	change func(w *sim.World)
}

// lives has a policy act in a world at some moments.
func lives(t *testing.T, w *sim.World, d decider, moments []moment) {
	t.Helper()
	start := w.State.Now
	for _, m := range moments {
		w.Advance(start.Add(m.at).Sub(w.State.Now))
		if m.change != nil {
			m.change(w)
		}
		made := d.plan(w.Snapshot())
		if got := reported(made); got != m.want {
			t.Errorf("after %s: %q, want %q", m.at, got, m.want)
		}
		require.NoError(t, w.Apply(made))
	}
}

func adds(pods ...plan.Pod) func(*sim.World) {
	return func(w *sim.World) { w.State.Pods = append(w.State.Pods, pods...) }
}

func leave(names ...string) func(*sim.World) {
	return func(w *sim.World) {
		for _, name := range names {
			w.RemovePod("trace/" + name)
		}
	}
}

// karpenter waits for a second without new pods, makes the cheapest node that fits the batch, in which pods with most
// CPU are first, and removes a node 15 s after it has seen it empty.
func TestKarpenter(t *testing.T) {
	o := options()
	o.GPUs = []int{1, 2, 4}
	x := traced(t, header+"a,1000,1000,1,1000,0,9,\nb,1000,1000,2,1000,0,9,\nc,1000,1000,1,1000,1,9,\n", o)
	w := x.world(x.pools("whole", nil))
	now := w.State.Now
	lives(t, w, &karpenter{known: map[string]bool{}}, []moment{
		{0, "", adds(x.pod(x.jobs[0], now), x.pod(x.jobs[1], now))}, {500 * time.Millisecond, "", nil},
		{time.Second, "", adds(x.pod(x.jobs[2], now.Add(time.Second)))}, // and the window goes on
		{2 * time.Second, "whole-4 to 1", nil}, {3 * time.Second, "", nil}, {20 * time.Second, "", nil},
		{182 * time.Second, "", leave("a", "b", "c")},
		{190 * time.Second, "", nil}, {196 * time.Second, "", nil}, {197 * time.Second, "remove-node whole-4-1", nil}, {300 * time.Second, "", nil},
	})
}

// cluster-autoscaler waits for the oldest pending pod and counts upcoming nodes. It removes a node after ten empty
// minutes, and at the earliest ten minutes after the last scale-up.
func TestClusterAutoscaler(t *testing.T) {
	x := traced(t, header+"a,1000,1000,1,1000,0,9,\nb,1000,1000,2,1000,0,9,\n", options())
	w := x.world(x.pools("whole", nil))
	lives(t, w, &clusterAutoscaler{unneeded: map[string]time.Time{}}, []moment{
		{0, "", adds(x.pod(x.jobs[0], w.State.Now), x.pod(x.jobs[1], w.State.Now))}, {20 * time.Second, "", nil},
		{30 * time.Second, "whole to 2", nil}, {40 * time.Second, "", nil}, {210 * time.Second, "", nil},
		{220 * time.Second, "soft-taint whole-2", leave("b")}, {800 * time.Second, "", nil}, {820 * time.Second, "remove-node whole-2", nil}, {900 * time.Second, "", nil},
	})
	// Pods that request only instances, and no nvidia.com/gpu, wait for 2 s.
	x.jobs[0].profile = x.smallest(1, 1, x.table.Profiles())
	w = x.world(x.pools("mig", x.filled(nil, x.jobs[0].profile)))
	lives(t, w, &clusterAutoscaler{}, []moment{{0, "", adds(x.pod(x.jobs[0], w.State.Now))}, {2 * time.Second, "mig to 1", nil}})
	// Pods with most CPU are first, not those with most GPUs, which would take two nodes.
	o := options()
	o.GPUs = []int{4}
	x = traced(t, header+"a,1,1,3,1000,0,9,\nb,1,1,3,1000,0,9,\nc,9,1,1,1000,0,9,\nd,9,1,1,1000,0,9,\n", o)
	w = x.world(x.pools("whole", nil))
	for _, j := range x.jobs {
		adds(x.pod(j, w.State.Now))(w)
	}
	lives(t, w, &clusterAutoscaler{}, []moment{{30 * time.Second, "whole to 3", nil}})
}

// cluster-autoscaler sees no nvidia.com/gpu on a node in MIG mode. So the node is unneeded, however full it is, if its
// pods may be evicted and fit elsewhere.
func TestUnneeded(t *testing.T) {
	s, _, err := scenario.Parse(`
pool mig max=9 gpus=1 model=A100-80GB cpu=9 memory=9Gi
node full pool=mig
gpu full/0 layout=(3g.40gb@0:allocated-to=trace/a 3g.40gb@4:allocated-to=trace/b)
node free pool=mig
gpu free/0 layout=(3g.40gb@0 3g.40gb@4)
pod trace/a requests=3g.40gb node=full cpu=1 memory=1Gi evictable
pod trace/b requests=3g.40gb node=full cpu=1 memory=1Gi evictable
`)
	require.NoError(t, err)
	s.Pools[0].Template.GPUs = s.Nodes[1].GPUs
	if f := look(&s); !f.unneeded(0) || !f.unneeded(1) {
		t.Errorf("want both nodes unneeded: %v", s.Nodes)
	}
}

// Underused nodes leave where their pods fit elsewhere; alone on a large node, a pod gets
// a cheaper one first. Pods that may not be evicted keep their node.
func TestKarpenterConsolidates(t *testing.T) {
	const pools = `
pool whole-1 max=10 price=2 gpus=1 model=A100-80GB ready-after=3m cpu=32 memory=128Gi
pool whole-2 max=10 price=4 gpus=2 model=A100-80GB ready-after=3m cpu=64 memory=256Gi
`
	node := func(node, pod, words string) string {
		return fmt.Sprintf("node %s pool=whole-2\ngpu %s/0 allocated-to=trace/%s\npod trace/%s requests=gpu node=%s cpu=1 memory=1Gi %s\n", node, node, pod, pod, node, words)
	}
	for _, c := range []struct {
		name, nodes string
		spot        bool
		want        []string
	}{
		{"two half nodes", node("whole-2-1", "a", "evictable") + node("whole-2-2", "b", "evictable"), true, []string{"drain whole-2-1"}},
		{"one pod on a large node", node("whole-2-1", "a", "evictable"), false, []string{"whole-1 to 1", "drain whole-2-1"}},
		{"one pod on a large spot node", node("whole-2-1", "a", "evictable"), true, nil},
		{"not evictable", node("whole-2-1", "a", "") + node("whole-2-2", "b", ""), false, nil},
	} {
		s, _, err := scenario.Parse(pools + c.nodes)
		require.NoError(t, err)
		s.Pools[0].Spot, s.Pools[1].Spot = c.spot, c.spot
		w, k, got := &sim.World{State: s}, &karpenter{known: map[string]bool{}}, []string(nil)
		for range 60 {
			made := k.plan(w.State)
			if s := reported(made); s != "" {
				got = append(got, s)
			}
			if len(got) == len(c.want) && len(got) > 0 {
				break
			}
			require.NoError(t, w.Apply(made))
			w.Advance(5 * time.Second)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

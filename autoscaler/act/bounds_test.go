package act

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// TestFreezeLetsEnd: under a freeze of the pool no operation begins, and those under way can be ended.
func TestFreezeLetsEnd(t *testing.T) {
	for name, freeze := range map[string]func(*world){
		"a pool":  func(w *world) { edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true }) },
		"no pool": func(w *world) { w.must(w.client.Delete(w.t.Context(), testPool())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, replica("a", "p-1"))
			w.full["a"] = true
			w.want(Waiting, drainAction())
			freeze(w)
			w.full["a"] = false
			for _, a := range []plan.Action{
				drainAction(), w.repartition(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
				{Verb: plan.Replace, Pool: "p", Node: "p-1"}, {Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"},
			} {
				w.want(Refused, a)
			}
			if got := w.pods(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("pods %v: a frozen drain continues", got)
			}
			w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
			w.inService()
		})
	}
}

// TestResumeUnderFreeze: a repartition whose config is not selected yet has not changed
// the GPU. Its record and its cordon are removed.
func TestResumeUnderFreeze(t *testing.T) {
	for name, freeze := range map[string]func(*world){
		"all":    func(w *world) { w.actor.o.Policy.Freeze = true },
		"a pool": func(w *world) { edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
			w.want(Done, w.repartition())
			if _, underWay, _ := contract.RecordOf(w.node()); !underWay || !w.node().Spec.Unschedulable {
				t.Fatal("no operation is pending")
			}
			freeze(w)
			w.must(w.resume(start.Add(time.Minute)))
			n := w.node()
			if _, underWay, _ := contract.RecordOf(n); underWay || n.Spec.Unschedulable || n.Labels[contract.ConfigLabel] != "" {
				t.Errorf("under way %v, cordoned %v, labels %v", underWay, n.Spec.Unschedulable, n.Labels)
			}
		})
	}
}

// TestAnotherOfTheName: an object that was recreated under the name of the snapshot's is left alone.
func TestAnotherOfTheName(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"))
	w.snap.Nodes[0].UID = "the first"
	edit(w, testNode(), func(n *corev1.Node) { n.UID = "the second" })
	w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
	w.want(Refused, drainAction())
	w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", Created: start, UID: "another"}}
	w.want(Refused, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"})
	if len(w.evicted) != 0 || w.node().Spec.Unschedulable {
		t.Errorf("evicted %v, cordoned %v", w.evicted, w.node().Spec.Unschedulable)
	}
	w.snap.Nodes[0].UID = "the second"
	w.want(Waiting, drainAction())
}

// TestDrainEvictsTheLeastUrgentFirst: where a PodDisruptionBudget allows one eviction,
// the planner's order decides which pod it is.
func TestDrainEvictsTheLeastUrgentFirst(t *testing.T) {
	urgent, old, young := replica("a-urgent", "p-1"), replica("b-old", "p-1"), replica("c-young", "p-1")
	urgent.Spec.Priority = ptr.To[int32](10)
	old.CreationTimestamp.Time = start.Add(-time.Hour)
	w := newWorld(t, nil, urgent, old, young)
	w.want(Waiting, drainAction())
	if want := []string{"ns/c-young uid-c-young", "ns/b-old uid-b-old", "ns/a-urgent uid-a-urgent"}; !slices.Equal(w.evicted, want) {
		t.Errorf("evicted %v, want %v", w.evicted, want)
	}
}

// TestInterrupted: a node that the provider terminates is drained despite scaleDown.disabled, with the grace period that
// is left; without an interruption it is not.
func TestInterrupted(t *testing.T) {
	long := replica("long", "p-1")
	long.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	long.Spec.Volumes = onDisk() // lost in any case
	w := newWorld(t, nil, long, replica("short", "p-1"),
		replica("saves", "p-1", v1alpha1.EvictFromAnnotation, start.Add(time.Hour).Format(time.RFC3339)),
		replica("stays", "p-1", v1alpha1.SafeToEvictAnnotation, "false"), tolerant("tolerates"))
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
	taken := start.Add(2 * time.Minute)
	do := plan.Action{Verb: plan.Drain, Pool: "p", Node: "p-1", Deadline: taken, Reason: plan.NodeInterrupted}
	w.want(Refused, do)
	w.snap.Nodes[0].LeavesAt = taken
	w.want(Waiting, do)
	if got := w.pods(); !slices.Equal(got, []string{"saves", "stays", "tolerates"}) {
		t.Errorf("pods left %v", got)
	}
	if want := []string{"long 115", "short"}; !slices.Equal(w.graces, want) {
		t.Errorf("graces %v, want %v", w.graces, want)
	}
	w.snap.Now = taken.Add(-plan.LastCall)
	w.want(Waiting, do)
	if got := w.pods(); !slices.Equal(got, []string{"stays", "tolerates"}) {
		t.Errorf("pods left %v: at the last call checkpoints are no longer waited for", got)
	}
}

// TestNotCounted: the provider does not count one of two Node objects, since its machine terminates or is not the
// pool's. A scale-up starts from the provider's size, not from the number of Nodes; a size that has changed since is no
// failure.
func TestNotCounted(t *testing.T) {
	w := newWorld(t, nil)
	var asked []int
	w.actor.o.Pools = provider{setSize: func(from, to int) error {
		asked = []int{from, to}
		return pools.ErrStale
	}}
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 2, Target: 1, Max: 3}}
	w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3})
	if !slices.Equal(asked, []int{1, 3}) {
		t.Errorf("asked for %v", asked)
	}
}

// refusal is a reason to refuse an action: the pod ns/a on the node, a change since the
// snapshot, or a fault of the action itself. Each may be nil.
type refusal struct {
	pod    *corev1.Pod
	change func(*world)
	action func(*plan.Action)
}

// TestRefused: an action that the cluster no longer allows writes nothing.
// Without the change the same action is carried out.
func TestRefused(t *testing.T) {
	node := func(change func(*corev1.Node)) func(*world) {
		return func(w *world) { edit(w, testNode(), change) }
	}
	pool := func(change func(*v1alpha1.GPUNodePool)) func(*world) {
		return func(w *world) { edit(w, testPool(), change) }
	}
	device := func(change func(*plan.GPU)) func(*world) {
		return func(w *world) { change(&w.snap.Nodes[0].GPUs[0]) }
	}
	draining := func(deadline time.Time) func(*world) {
		return node(func(n *corev1.Node) {
			annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: deadline}.String())
		})
	}
	ended := func(w *world) { w.snap.Nodes[0].Drain = &plan.Draining{Reason: plan.NodeEmpty} }
	cordoned := node(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	keepsNodes := pool(func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
	fixed := func(w *world) {
		edit(w, testPool(), func(p *v1alpha1.GPUNodePool) {
			p.Spec.Min, p.Spec.Max, p.Spec.Provider = 0, 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
		})
		w.actor.o.Pools = pools.Providers{}
	}
	elsewhere := node(func(n *corev1.Node) { n.Labels[v1alpha1.NodePoolLabel] = "q" })
	foreign := node(func(n *corev1.Node) { n.Labels["karpenter.sh/nodepool"] = "other" })
	another := func(w *world) { w.snap.Nodes[0].UID = "another" }
	recorded := node(func(n *corev1.Node) { annotate(n, contract.RecordAnnotation, "{}") })
	bare := replica("a", "p-1")
	bare.OwnerReferences = nil
	later := replica("a", "p-1")
	later.UID = "later"
	keeper := daemon("a", "p-1")
	keeper.Annotations = map[string]string{v1alpha1.DoNotDisruptAnnotation: "true"}
	storing := replica("a", "p-1")
	storing.Spec.Volumes = onDisk()
	says := func(annotation, value string) *corev1.Pod { return replica("a", "p-1", annotation, value) }

	for name, c := range map[string]struct {
		do       plan.Action
		pod      *corev1.Pod // unless the refusal has one
		refusals map[string]refusal
	}{
		"scale-up": {plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3}, nil, map[string]refusal{
			"a fixed pool": {change: fixed},
			"above max":    {action: func(a *plan.Action) { a.From, a.To = 3, 4 }},
		}},
		"remove-node": {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}, nil, map[string]refusal{
			"a fixed pool":        {change: fixed},
			"a pod is there":      {pod: gpuPod("a", "p-1")},
			"a pod leaves late":   {pod: overdue(plan.StuckAfter - time.Second)},
			"a daemon keeps it":   {pod: keeper},
			"another incarnation": {change: another},
			"Karpenter's word":    {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.DoNotDisruptAnnotation, "true") })},
			"its annotation":      {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.ScaleDownDisabledAnnotation, "true") })},
			"another cordon":      {change: cordoned},
			"being repartitioned": {change: recorded},
			"its drain has ended": {change: ended},
			"of another pool":     {change: elsewhere},
			"made by Karpenter":   {change: foreign},
		}},
		"repartition": {(&world{t: t}).repartition(), nil, map[string]refusal{
			"offers something else": {change: func(w *world) { w.answer(contract.StateSuccess, asHalves) }},
			"another incarnation":   {change: another},
			"another layout":        {change: device(func(c *plan.GPU) { c.Instances = nil })},
			"not in the snapshot":   {change: func(w *world) { w.snap.Nodes = nil }},
			"being drained":         {change: draining(start.Add(time.Minute))},
		}},
		"reclaim": {plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed}, replica("a", "p-1"), map[string]refusal{
			"not safe to evict":         {pod: says(v1alpha1.SafeToEvictAnnotation, "false")},
			"to complete":               {pod: says(v1alpha1.OtherSafeToEvictAnnotation, "on-completion")},
			"cluster-autoscaler's word": {pod: says(v1alpha1.OtherSafeToEvictAnnotation, "false")},
			"Karpenter's word":          {pod: says(v1alpha1.DoNotDisruptAnnotation, "true")},
			"local storage":             {pod: storing},
			"its checkpoint is later":   {pod: says(v1alpha1.EvictFromAnnotation, start.Add(time.Second).Format(time.RFC3339))},
			"unreadable checkpoint":     {pod: says(v1alpha1.EvictFromAnnotation, "soon")},
			"no controller":             {pod: bare},
			"a daemon":                  {pod: daemon("a", "p-1")},
			"on another node":           {pod: replica("a", "p-2")},
			"another of that name":      {pod: later},
			"no disruption allowed":     {change: func(w *world) { w.full["a"] = true }},
			"not in the snapshot":       {change: func(w *world) { w.snap.Pods = nil }},
		}},
		"drain": {drainAction(), replica("a", "p-1"), map[string]refusal{
			"a fixed pool":         {change: fixed},
			"local storage":        {pod: storing},
			"not to be disrupted":  {pod: says(v1alpha1.DoNotDisruptAnnotation, "true")},
			"not safe to evict":    {pod: says(v1alpha1.SafeToEvictAnnotation, "false")},
			"no controller":        {pod: bare},
			"tolerates the cordon": {pod: tolerant("a")},
			"the pool keeps nodes": {change: keepsNodes},
			"of another pool":      {change: elsewhere},
			"being repartitioned":  {change: recorded},
			"it has ended":         {change: ended},
			"overdue":              {change: draining(start.Add(-time.Second))},
			"unreadable record":    {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.DrainAnnotation, "{}") })},
			"another cordon":       {change: cordoned},
		}},
		"replace": {replaceFirst, nil, map[string]refusal{
			"a fixed pool":         {change: fixed},
			"a pod is there":       {pod: replica("a", "p-1")},
			"another incarnation":  {change: another},
			"of no pool":           {change: node(func(n *corev1.Node) { delete(n.Labels, v1alpha1.NodePoolLabel) })},
			"the pool keeps nodes": {change: keepsNodes},
		}},
	} {
		c.refusals["control"] = refusal{}
		for why, r := range c.refusals {
			t.Run(name+": "+why, func(t *testing.T) {
				if r.pod == nil {
					r.pod = c.pod
				}
				w := newVacant(t)
				if r.pod != nil {
					w = newVacant(t, r.pod.DeepCopy())
				}
				w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", UID: "uid-a", Created: start, Evictable: true}}
				if r.change != nil {
					r.change(w)
				}
				do := c.do
				if r.action != nil {
					r.action(&do)
				}
				nodes, pods, writes := w.nodes(), w.pods(), w.writes
				got := w.do(do)
				if why == "control" {
					if got.Outcome != Done && got.Outcome != Waiting {
						t.Fatalf("refused in any world: %s (%v)", got.Outcome, got.Err)
					}
					return
				}
				if got.Outcome != Refused {
					t.Fatalf("%s (%v), want it refused", got.Outcome, got.Err)
				}
				if !slices.Equal(w.nodes(), nodes) || !slices.Equal(w.pods(), pods) || w.writes != writes || len(w.evicted) > 0 {
					t.Errorf("nodes %v, pods %v, evicted %v, %d writes", w.nodes(), w.pods(), w.evicted, w.writes-writes)
				}
			})
		}
	}
}

// stale writes to the cluster and reads its state from the start of the test, like an
// informer cache that lags behind our own writes.
type stale struct {
	client.Client
	before client.Reader
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return s.before.Get(ctx, key, o, opts...)
}

func (s stale) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return s.before.List(ctx, l, opts...)
}

// newStaleWorld is newWorld with an Actor whose cache never catches up.
func newStaleWorld(t *testing.T, more ...client.Object) *world {
	t.Helper()
	objects := []client.Object{testPool(), testNode()}
	for _, o := range more {
		objects = append(objects, o.DeepCopyObject().(client.Object))
	}
	before := kubefake.New(kinds).WithObjects(objects...).Build()
	return newWorld(t, func(o *Options) {
		cached := stale{o.Client, before}
		o.Client, o.Partition = cached, partition.NewManager(cached, o.Live, partition.DefaultConfigMap)
		o.Pools = pools.Providers{GRPC: nodegroups.New(cached, o.Live)}
	}, more...)
}

// TestStaleCache: repeating a plan while the cache lags behind its writes changes nothing.
func TestStaleCache(t *testing.T) {
	t.Run("scale up", func(t *testing.T) {
		w := newStaleWorld(t)
		up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}
		w.want(Done, up)
		writes := w.writes
		w.want(Done, up)
		if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2", "p-3"}) || w.writes != writes {
			t.Errorf("nodes %v, %d writes more", got, w.writes-writes)
		}
	})
	t.Run("remove", func(t *testing.T) {
		second := testNode()
		second.Name = "p-2"
		w := newStaleWorld(t, second, daemon("agent", "p-1")) // keeps no node
		remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
		w.want(Waiting, remove)
		w.settled()
		w.want(Done, remove)
		w.want(Refused, remove)
		if got := w.nodes(); !slices.Equal(got, []string{"p-2"}) {
			t.Errorf("nodes %v", got)
		}
	})
	t.Run("scale up after a removal", func(t *testing.T) {
		second := testNode()
		second.Name = "p-2"
		w := newStaleWorld(t, second)
		w.snap.Pools = []plan.Pool{{Name: "p", Size: 2, Target: 2, Max: 3}}
		remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
		w.want(Waiting, remove)
		w.settled()
		w.want(Done, remove)
		w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3}) // it would add two
		w.snap.Pools[0].Size, w.snap.Pools[0].Target = 1, 1
		w.want(Done, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2})
		if got := w.nodes(); len(got) != 2 {
			t.Errorf("nodes %v", got)
		}
	})
	t.Run("recreated under its name", func(t *testing.T) {
		w := newStaleWorld(t)
		w.must(w.client.Delete(t.Context(), testNode()))
		again := testNode()
		again.UID = "again"
		w.must(w.client.Create(t.Context(), again))
		w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
		w.want(Refused, w.repartition())
	})
	t.Run("select", func(t *testing.T) {
		w := newWorld(t, nil)
		if r := w.do(w.repartition()); r.Outcome != Done {
			t.Fatal(r.Err)
		}
		w.actor.o.Client = stale{w.client, kubefake.New(kinds).WithObjects(w.node()).Build()}
		w.must(w.resume(start.Add(settleDelay)))
		w.answer(contract.StateSuccess, asHalves)
		w.must(w.resume(start.Add(settleDelay)))
		if op := partition.OperationOf(w.node()); op.Phase != plan.PhaseSucceeded {
			t.Errorf("%s, %s: mig-manager has answered", op.Phase, op.Message)
		}
	})
	t.Run("repartition", func(t *testing.T) {
		w := newStaleWorld(t)
		w.want(Done, w.repartition())
		record := w.node().Annotations[contract.RecordAnnotation]
		writes := w.writes
		other := w.repartition()
		other.Operation = "another"
		w.want(Refused, other)
		if w.writes != writes || w.node().Annotations[contract.RecordAnnotation] != record {
			t.Errorf("%d more writes, record %s", w.writes-writes, w.node().Annotations[contract.RecordAnnotation])
		}
		var configs corev1.ConfigMapList
		if err := w.client.List(t.Context(), &configs); err != nil || len(configs.Items) != 1 {
			t.Errorf("%d ConfigMaps, %v", len(configs.Items), err)
		}
	})
}

// TestPodIndex: pods are found by their node.
func TestPodIndex(t *testing.T) {
	gpu := demand.Demand{Vendor: "nvidia", GPUs: 1}
	r := newReconcile(plan.Snapshot{Pods: []plan.Pod{
		{Namespace: "chat", Name: "b", UID: "2", Node: "n", Demand: gpu}, {Namespace: "chat", Name: "a", UID: "1", Node: "n", Demand: gpu},
		{Namespace: "chat", Name: "plain", Node: "n"}, {Namespace: "chat", Name: "c", Node: "m", Demand: gpu}, {Namespace: "chat", Name: "waits", Demand: gpu},
	}}, plan.DefaultPolicy())
	if got, want := r.podsOn("n"), []string{"chat/a 1", "chat/b 2", "chat/plain "}; !slices.Equal(got, want) {
		t.Errorf("on n are %v, want %v", got, want)
	}
}

package act

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

// refusal is a reason to refuse an action: the pod ns/a on the node, a change since the
// snapshot, or a fault of the action itself. Each may be nil.
type refusal struct {
	pod    *corev1.Pod
	change func(*world)
	action func(*plan.Action)
}

// TestRefused: an action that the cluster or the policy no longer allows writes nothing.
// Without the change the same action is carried out.
func TestRefused(t *testing.T) {
	node := func(change func(*corev1.Node)) func(*world) {
		return func(w *world) { edit(w, testNode(), change) }
	}
	pool := func(change func(*v1alpha1.GPUNodePool)) func(*world) {
		return func(w *world) { edit(w, testPool(), change) }
	}
	policy := func(change func(*plan.Policy)) func(*world) {
		return func(w *world) { change(&w.actor.o.Policy) }
	}
	device := func(change func(*plan.GPU)) func(*world) {
		return func(w *world) { change(&w.snap.Nodes[0].GPUs[0]) }
	}
	draining := func(deadline time.Time) func(*world) {
		return node(func(n *corev1.Node) {
			annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: deadline}.String())
		})
	}
	cordoned := node(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	keepsNodes := pool(func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
	elsewhere := node(func(n *corev1.Node) { n.Labels[v1alpha1.NodePoolLabel] = "q" })
	another := func(w *world) { w.snap.Nodes[0].Created = start.Add(-time.Hour) }
	recorded := node(func(n *corev1.Node) { annotate(n, partition.RecordAnnotation, "{}") })
	bare := replica("a", "p-1")
	bare.OwnerReferences = nil
	older := replica("a", "p-1")
	older.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	storing := replica("a", "p-1")
	storing.Spec.Volumes = onDisk()
	says := func(annotation, value string) *corev1.Pod { return replica("a", "p-1", annotation, value) }

	for name, c := range map[string]struct {
		do       plan.Action
		pod      *corev1.Pod // unless the refusal has one
		refusals map[string]refusal
	}{
		"scale-up": {plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3}, nil, map[string]refusal{
			"above max":     {action: func(a *plan.Action) { a.From, a.To = 3, 4 }},
			"nodes at once": {change: policy(func(p *plan.Policy) { p.MaxNodesPerScaleUp = 0 })},
			"nodes an hour": {change: func(w *world) {
				w.actor.o.Policy.MaxNodesPerHour = 4
				w.snap.State.Grown = []plan.Growth{{Pool: "p", At: start.Add(-59 * time.Minute), Nodes: 4}, {Pool: "q", At: start, Nodes: 9}}
			}},
		}},
		"remove-node": {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}, nil, map[string]refusal{
			"a pod is there":      {pod: gpuPod("a", "p-1")},
			"another incarnation": {change: another},
			"the pool's min":      {change: pool(func(p *v1alpha1.GPUNodePool) { p.Spec.Min = 2 })},
			"nodes a reconcile":   {change: policy(func(p *plan.Policy) { p.MaxRemovalsPerReconcile = 0 })},
			"nodes in ten minutes": {change: func(w *world) {
				w.actor.o.Policy.MaxRemovalsPerTenMinutes = 5
				w.snap.State.Removed = []plan.Growth{{Pool: "q", At: start.Add(-9 * time.Minute), Nodes: 5}}
			}},
			"Karpenter's word":    {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.DoNotDisruptAnnotation, "true") })},
			"its annotation":      {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.ScaleDownDisabledAnnotation, "true") })},
			"another cordon":      {change: cordoned},
			"being repartitioned": {change: recorded},
			"of another pool":     {change: elsewhere},
		}},
		"repartition": {(&world{t: t}).repartition(), nil, map[string]refusal{
			"offers something else": {change: func(w *world) { w.answer(partition.StateSuccess, asHalves) }},
			"another incarnation":   {change: another},
			"allocated":             {change: device(func(c *plan.GPU) { c.Instances[3].AllocatedTo = "ns/x" })},
			"unknown pods":          {change: device(func(c *plan.GPU) { c.AllocationKnown = false })},
			"another layout":        {change: device(func(c *plan.GPU) { c.Instances = nil })},
			"not in the snapshot":   {change: func(w *world) { w.snap.Nodes = nil }},
			"being drained":         {change: draining(start.Add(time.Minute))},
			"without a name":        {action: func(a *plan.Action) { a.Operation = "" }},
		}},
		"reclaim": {plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed}, replica("a", "p-1"), map[string]refusal{
			"not safe to evict":         {pod: says(v1alpha1.SafeToEvictAnnotation, "false")},
			"cluster-autoscaler's word": {pod: says(v1alpha1.OtherSafeToEvictAnnotation, "false")},
			"Karpenter's word":          {pod: says(v1alpha1.DoNotDisruptAnnotation, "true")},
			"local storage":             {pod: storing},
			"its checkpoint is later":   {pod: says(v1alpha1.EvictFromAnnotation, start.Add(time.Second).Format(time.RFC3339))},
			"unreadable checkpoint":     {pod: says(v1alpha1.EvictFromAnnotation, "soon")},
			"no controller":             {pod: bare},
			"a daemon":                  {pod: daemon("a", "p-1")},
			"on another node":           {pod: replica("a", "p-2")},
			"not bound":                 {pod: replica("a", ""), action: func(a *plan.Action) { a.Node = "" }},
			"another of that name":      {pod: older},
			"no disruption allowed":     {change: func(w *world) { w.full["a"] = true }},
			"not in the snapshot":       {change: func(w *world) { w.snap.Pods = nil }},
			"borrowing is allowed":      {change: policy(func(p *plan.Policy) { p.ReclaimBorrowed = false })},
			"reclaiming is off":         {change: policy(func(p *plan.Policy) { p.MaxEvictionsPerReconcile = 0 })},
		}},
		"drain": {drainAction(), replica("a", "p-1"), map[string]refusal{
			"local storage":        {pod: storing},
			"not to be disrupted":  {pod: says(v1alpha1.DoNotDisruptAnnotation, "true")},
			"not safe to evict":    {pod: says(v1alpha1.SafeToEvictAnnotation, "false")},
			"no controller":        {pod: bare},
			"draining is off":      {change: policy(func(p *plan.Policy) { p.MaxDrains = 0 })},
			"another node drains":  {change: func(w *world) { w.snap.Nodes[1].Drain = &plan.Draining{} }},
			"the pool keeps nodes": {change: keepsNodes},
			"of another pool":      {change: elsewhere},
			"being repartitioned":  {change: recorded},
			"overdue":              {change: draining(start.Add(-time.Second))},
			"unreadable record":    {change: node(func(n *corev1.Node) { annotate(n, v1alpha1.DrainAnnotation, "{}") })},
			"another cordon":       {change: cordoned},
		}},
		"replace": {replaceFirst, nil, map[string]refusal{
			"a pod is there":    {pod: replica("a", "p-1")},
			"no GPU is sick":    {change: device(func(c *plan.GPU) { c.Health = gpu.Healthy })},
			"health is unknown": {change: device(func(c *plan.GPU) { c.Health = gpu.HealthUnknown })},
			"too many are sick": {change: func(w *world) { w.snap.Nodes[1].GPUs[0].Health = gpu.Sick }},
			"replacing is off":  {change: policy(func(p *plan.Policy) { p.SickAfter = 0 })},
			"one was replaced": {change: func(w *world) {
				w.snap.State.LastReplace = []plan.Stamp{{Name: "p", At: start.Add(-59 * time.Minute)}}
			}},
			"the pool has shrunk":  {change: func(w *world) { w.snap.Pools[0].Size = 3 }},
			"the pool is unknown":  {change: func(w *world) { w.snap.Pools = nil }},
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
				w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true}}
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

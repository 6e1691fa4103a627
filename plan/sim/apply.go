package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Apply persists the plan's state and starts its actions. The error names an
// action whose precondition does not hold; earlier actions stay under way.
func (w *World) Apply(p plan.Plan) error {
	w.State.State = p.State
	for _, n := range p.Nominations {
		if w.nominated == nil {
			w.nominated = map[string]string{}
		}
		w.nominated[n.Pod] = n.Node
	}
	for _, a := range p.Actions {
		if err := w.apply(a); err != nil {
			return fmt.Errorf("applying %s of %s: %w", a.Verb, cmp.Or(a.Pod, a.Node, a.Pool), err)
		}
	}
	return nil
}

func (w *World) apply(a plan.Action) error {
	n, p := w.node(a.Node), w.pool(a.Pool)
	switch a.Verb {
	case plan.Reclaim:
		return w.reclaim(a)
	case plan.Uncordon, plan.Rollback, plan.SoftTaint, plan.RemoveSoftTaint:
		if n == nil {
			return errors.New("there is no such node")
		}
	default:
		ofPool := a.Verb == plan.ScaleUp || a.Verb == plan.Withdraw
		if p == nil || !ofPool && (n == nil || n.Pool != p.Name) {
			return fmt.Errorf("there is no such node in %s, or no such pool", a.Pool)
		}
	}
	switch a.Verb {
	case plan.ScaleUp:
		return w.scaleUp(a, p)
	case plan.Withdraw:
		if p.Target == a.From {
			p.Target, p.BackoffUntil = a.To, w.State.Now.Add(time.Minute) // as the autoscaler's providers do
			p.Failed, p.FailedWhy = 0, ""
			delete(w.lost, a.Pool)
		}
	case plan.Repartition:
		return w.repartition(a, n, p.MIG)
	case plan.Drain:
		return w.drain(a, n)
	case plan.RemoveNode, plan.Replace:
		return w.removeNode(a, n, p)
	case plan.SoftTaint, plan.RemoveSoftTaint:
		n.SoftTainted = a.Verb == plan.SoftTaint
	case plan.Uncordon, plan.Rollback:
		return w.uncordon(a, n)
	default:
		return errors.New("the world does not know this verb")
	}
	return nil
}

func (w *World) scaleUp(a plan.Action, p *plan.Pool) error {
	if a.To > p.Max || a.To <= a.From || a.From < p.Target {
		return fmt.Errorf("from %d to %d, the pool has target %d and max %d", a.From, a.To, p.Target, p.Max)
	}
	p.Target = a.To
	for range a.To - a.From {
		w.after(w.unregistered(p), func() string { return w.addNode(a.Pool) })
	}
	return nil
}

// unregistered returns how long a requested node of a pool has no Node object.
func (w *World) unregistered(p *plan.Pool) time.Duration { return max(p.ReadyAfter-w.Registers, 0) }

// addNode adds a node from a pool's template, unless the request was withdrawn. The node is ready once its pool's
// ReadyAfter has passed since the request.
func (w *World) addNode(pool string) string {
	p := w.pool(pool)
	switch {
	case p == nil || p.Size+w.lost[pool] >= p.Target:
		return ""
	case w.Lost != nil && w.Lost():
		w.lose(p)
		return "a node of " + pool + " does not register"
	}
	n := NewNode(w.newName(pool), p)
	n.Created = w.State.Now
	w.boot(&n)
	p.Size++
	boots := p.ReadyAfter - w.unregistered(p)
	n.Ready = boots <= 0
	w.State.Nodes = append(w.State.Nodes, n)
	if w.Interrupted != nil {
		w.after(max(boots, 0)+w.Interrupted(), func() string { return w.interrupt(n.Name) })
	}
	if !n.Ready {
		w.after(boots, func() string { return w.ready(n.Name) })
		return n.Name + " has registered"
	}
	return n.Name + " is ready"
}

func (w *World) ready(name string) string {
	n := w.node(name)
	if n == nil {
		return ""
	}
	n.Ready = true
	w.boot(n)
	return name + " is ready"
}

// boot makes all GPUs of a node free from now on.
func (w *World) boot(n *plan.Node) {
	for c := range n.GPUs {
		device := &n.GPUs[c]
		device.AllocationKnown, device.IdleSince = true, w.State.Now
		for i := range device.Instances {
			device.Instances[i].IdleSince = w.State.Now
		}
	}
}

// NewNode is a ready node of a pool's template.
func NewNode(name string, p *plan.Pool) plan.Node {
	t := p.Template
	return cloneNode(plan.Node{Name: name, Pool: p.Name, Labels: t.Labels, Taints: t.Taints, Ready: true,
		CPUMilli: t.CPUMilli, MemoryMi: t.MemoryMi, Others: t.Others, GPUs: t.GPUs})
}

// removeNode removes an empty node, with its DaemonSet pods, from its pool. With Replace the
// pool gets another node, and the allocation of the removed one may be unknown.
func (w *World) removeNode(a plan.Action, n *plan.Node, p *plan.Pool) error {
	stays := func(key string) bool {
		i := w.pod(key)
		return i < 0 || !w.State.Pods[i].DaemonSet && !w.State.Pods[i].Stuck(w.State.Now)
	}
	for i := range w.State.Pods {
		pod := &w.State.Pods[i]
		if pod.Node == n.Name && !pod.DaemonSet && !pod.Stuck(w.State.Now) {
			return fmt.Errorf("%s runs there", pod.Key())
		}
	}
	for _, g := range n.GPUs {
		used := slices.ContainsFunc(g.AllocatedTo, stays) ||
			slices.ContainsFunc(g.Instances, func(in plan.Instance) bool { return in.AllocatedTo != "" && stays(in.AllocatedTo) })
		if used || a.Verb == plan.RemoveNode && !g.AllocationKnown {
			return fmt.Errorf("GPU %d is allocated, or its allocation is unknown", g.Index)
		}
	}
	w.dropNode(n, p)
	if a.Verb == plan.Replace {
		w.after(w.unregistered(p), func() string { return w.addNode(a.Pool) })
	} else {
		p.Target--
	}
	return nil
}

// dropNode deletes a node of a pool, with its DaemonSet pods and those that were leaving it.
func (w *World) dropNode(n *plan.Node, p *plan.Pool) {
	name := n.Name
	w.State.Pods = slices.DeleteFunc(w.State.Pods, func(pod plan.Pod) bool { return pod.Node == name && (pod.DaemonSet || pod.Leaving) })
	w.State.Nodes = slices.DeleteFunc(w.State.Nodes, func(n plan.Node) bool { return n.Name == name })
	p.Size--
}

func (w *World) repartition(a plan.Action, n *plan.Node, rules plan.PoolMIG) error {
	g := gpuOf(n, a.GPU)
	switch {
	case n.Operation != nil:
		return fmt.Errorf("%s is under way", n.Operation.ID)
	case n.Drain != nil:
		return errors.New("the node is being drained")
	case g == nil:
		return fmt.Errorf("there is no GPU %d", a.GPU)
	case !g.MIG && len(g.AllocatedTo) > 0:
		return fmt.Errorf("GPU %d is allocated to %s", a.GPU, g.AllocatedTo[0])
	case !g.AllocationKnown:
		return fmt.Errorf("the allocation of GPU %d is unknown", a.GPU)
	}
	if t, known := w.State.Tables.ForModel(g.Model.Name); known {
		if err := t.Legal(a.Target); err != nil { // no driver makes that
			return fmt.Errorf("GPU %d cannot be repartitioned so: %w", a.GPU, err)
		}
	}
	for _, in := range g.Instances {
		if in.AllocatedTo != "" && (!rules.KeepsBusy || !slices.Contains(a.Target, in.Placement)) {
			return fmt.Errorf("%s is allocated to %s", in.Placement, in.AllocatedTo)
		}
	}
	n.Cordoned, n.CordonedBy = true, a.Operation
	n.Operation = &plan.Operation{ID: a.Operation, GPU: a.GPU, Target: a.Target, Started: w.State.Now,
		Deadline: a.Deadline, Phase: plan.PhasePending}
	w.after(rules.Duration, func() string { return w.finish(a) })
	return nil
}

func gpuOf(n *plan.Node, index int) *plan.GPU {
	i := slices.IndexFunc(n.GPUs, func(g plan.GPU) bool { return g.Index == index })
	if i < 0 {
		return nil
	}
	return &n.GPUs[i]
}

// finish ends a repartition, unless it was rolled back or its node is gone. Instances that
// are in the target stay.
func (w *World) finish(a plan.Action) string {
	n := w.node(a.Node)
	if n == nil || n.Operation == nil || n.Operation.ID != a.Operation {
		return ""
	}
	name := fmt.Sprintf("%s/%d", a.Node, a.GPU)
	if i := slices.Index(w.Fail, name); i >= 0 {
		w.Fail = slices.Delete(w.Fail, i, i+1)
		n.Operation.Phase, n.Operation.Message = plan.PhaseFailed, "the GPU is in use"
		return name + " could not be repartitioned: the GPU is in use"
	}
	if g := gpuOf(n, a.GPU); g != nil {
		before := g.Instances
		g.Instances = nil
		for _, at := range a.Target {
			in := plan.Instance{Placement: at, Placed: true, IdleSince: w.State.Now}
			if i := slices.IndexFunc(before, func(in plan.Instance) bool { return in.Placed && in.Placement == at }); i >= 0 {
				in = before[i]
			}
			g.Instances = append(g.Instances, in)
		}
		reoffer(n, w.State.Tables)
	}
	n.Operation.Phase = plan.PhaseSucceeded
	return fmt.Sprintf("%s is partitioned to %s", name, plan.LayoutText(a.Model, a.Target))
}

// reoffer makes a node's allocatable instances those of its layouts, as its device
// plugin does once it has started again.
func reoffer(n *plan.Node, tables mig.Tables) {
	if n.Allocatable == nil {
		return
	}
	offer := *n.Allocatable
	offer.MIG = nil
	for _, g := range n.GPUs {
		t, known := tables.ForModel(g.Model.Name)
		for i := 0; known && i < len(g.Instances); i++ {
			name, _ := mig.ParseName(t.Name(g.Instances[i].Profile)) // a table's names always parse
			offer.MIG = append(offer.MIG, demand.Named(name, 1))
		}
	}
	n.Allocatable = &offer
}

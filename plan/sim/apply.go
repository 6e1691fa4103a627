package sim

import (
	"cmp"
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
	for _, a := range p.Actions {
		if err := w.apply(a); err != nil {
			return fmt.Errorf("applying %s of %s: %w", a.Verb, cmp.Or(a.Pod, a.Node, a.Pool), err)
		}
	}
	return nil
}

func (w *World) apply(a plan.Action) error {
	switch a.Verb {
	case plan.ScaleUp:
		return w.scaleUp(a)
	case plan.Withdraw:
		if p := w.pool(a.Pool); p != nil && p.Target == a.From {
			p.Target, p.BackoffUntil = a.To, w.State.Now.Add(time.Minute) // as the autoscaler's providers do
			delete(w.lost, a.Pool)
		}
		return nil
	case plan.Repartition:
		return w.repartition(a)
	case plan.Reclaim:
		return w.reclaim(a)
	case plan.Drain:
		return w.drain(a)
	case plan.RemoveNode:
		return w.removeNode(a)
	case plan.Replace:
		return w.replace(a)
	case plan.SoftTaint, plan.RemoveSoftTaint:
		n := w.node(a.Node)
		if n == nil {
			return fmt.Errorf("there is no such node")
		}
		n.SoftTainted = a.Verb == plan.SoftTaint
		return nil
	case plan.Uncordon, plan.Rollback:
		return w.uncordon(a)
	default:
		return fmt.Errorf("the world does not know this verb")
	}
}

func (w *World) scaleUp(a plan.Action) error {
	p := w.pool(a.Pool)
	if p == nil {
		return fmt.Errorf("there is no such pool")
	}
	if a.To > p.Max || a.To <= a.From || a.From < p.Target {
		return fmt.Errorf("from %d to %d, the pool has target %d and max %d", a.From, a.To, p.Target, p.Max)
	}
	p.Target = a.To
	for range a.To - a.From {
		w.after(p.ReadyAfter, func(w *World) string { return w.addNode(a.Pool) })
	}
	return nil
}

// addNode adds a ready node from a pool's template, unless it was withdrawn.
func (w *World) addNode(pool string) string {
	p := w.pool(pool)
	if p == nil || p.Size+w.lost[pool] >= p.Target {
		return ""
	}
	if w.Lost != nil && w.Lost() {
		w.lose(p)
		return "a node of " + pool + " does not register"
	}
	t := p.Template
	n := cloneNode(plan.Node{Name: w.newName(pool), Pool: pool, Labels: t.Labels, Taints: t.Taints, Ready: true,
		Created: w.State.Now, CPUMilli: t.CPUMilli, MemoryMi: t.MemoryMi, Others: t.Others, GPUs: t.GPUs})
	for c := range n.GPUs {
		device := &n.GPUs[c]
		device.AllocationKnown, device.IdleSince = true, w.State.Now
		for i := range device.Instances {
			device.Instances[i].IdleSince = w.State.Now
		}
	}
	p.Size++
	w.State.Nodes = append(w.State.Nodes, n)
	if w.Interrupted != nil {
		w.after(w.Interrupted(), func(w *World) string { return w.interrupt(n.Name) })
	}
	return n.Name + " is ready"
}

func (w *World) repartition(a plan.Action) error {
	n := w.node(a.Node)
	p := w.pool(a.Pool)
	if n == nil || p == nil {
		return fmt.Errorf("there is no such node or pool")
	}
	if n.Operation != nil {
		return fmt.Errorf("%s is under way", n.Operation.ID)
	}
	if n.Drain != nil {
		return fmt.Errorf("the node is being drained")
	}
	c := slices.IndexFunc(n.GPUs, func(c plan.GPU) bool { return c.Index == a.GPU })
	if c < 0 {
		return fmt.Errorf("there is no GPU %d", a.GPU)
	}
	if !n.GPUs[c].MIG && len(n.GPUs[c].AllocatedTo) > 0 {
		return fmt.Errorf("GPU %d is allocated to %s", a.GPU, n.GPUs[c].AllocatedTo[0])
	}
	if !n.GPUs[c].AllocationKnown {
		return fmt.Errorf("the allocation of GPU %d is unknown", a.GPU)
	}
	if t, known := w.State.Tables.ForModel(n.GPUs[c].Model.Name); known {
		if err := t.Legal(a.Target); err != nil { // no driver makes that
			return fmt.Errorf("GPU %d cannot be repartitioned so: %w", a.GPU, err)
		}
	}
	for _, in := range n.GPUs[c].Instances {
		if in.AllocatedTo != "" && (!p.MIG.KeepsBusy || !slices.Contains(a.Target, in.Placement)) {
			return fmt.Errorf("%s is allocated to %s", in.Placement, in.AllocatedTo)
		}
	}
	n.Cordoned, n.CordonedBy = true, a.Operation
	n.Operation = &plan.Operation{ID: a.Operation, GPU: a.GPU, Target: a.Target, Started: w.State.Now,
		Deadline: a.Deadline, Phase: plan.PhasePending}
	w.after(p.MIG.Duration, func(w *World) string { return w.finish(a) })
	return nil
}

// finish ends a repartition, unless it was rolled back or its node is gone.
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
	c := slices.IndexFunc(n.GPUs, func(c plan.GPU) bool { return c.Index == a.GPU })
	if c >= 0 {
		n.GPUs[c].Instances = repartitioned(n.GPUs[c].Instances, a.Target, w.State.Now)
		reoffer(n, a)
	}
	n.Operation.Phase = plan.PhaseSucceeded
	return fmt.Sprintf("%s is partitioned to %s", name, plan.LayoutText(a.Model, a.Target))
}

// reoffer updates a node's allocatable resources to the new layout of a GPU, as
// its device plugin would.
func reoffer(n *plan.Node, a plan.Action) {
	t, ok := mig.ForModel(a.Model)
	if n.Allocatable == nil || !ok {
		return
	}
	offer := *n.Allocatable
	offer.MIG = slices.Clone(offer.MIG)
	change := func(l mig.Layout, by int) {
		for _, p := range l {
			name := t.Name(p.Profile)
			i := slices.IndexFunc(offer.MIG, func(in demand.Instances) bool { return in.Name == name })
			if i < 0 {
				parsed, _ := mig.ParseName(name) // of a table
				offer.MIG = append(offer.MIG, demand.Named(parsed, 0))
				i = len(offer.MIG) - 1
			}
			offer.MIG[i].Count += by
		}
	}
	change(a.Before, -1)
	change(a.Target, 1)
	offer.MIG = slices.DeleteFunc(offer.MIG, func(in demand.Instances) bool { return in.Count <= 0 })
	n.Allocatable = &offer
}

// repartitioned keeps the instances that are in the target and adds the others,
// free since now.
func repartitioned(have []plan.Instance, target mig.Layout, now time.Time) []plan.Instance {
	var out []plan.Instance
	for _, p := range target {
		i := slices.IndexFunc(have, func(in plan.Instance) bool { return in.Placed && in.Placement == p })
		if i >= 0 {
			out = append(out, have[i])
			continue
		}
		out = append(out, plan.Instance{Placement: p, Placed: true, IdleSince: now})
	}
	return out
}

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *World) node(x *fields, name string) error {
	state := &w.Sim.State
	i := slices.IndexFunc(state.Nodes, func(n plan.Node) bool { return n.Name == name })
	if x.has("gone") {
		if i < 0 {
			return fmt.Errorf("there is no node %s", name)
		}
		w.count(state.Nodes[i].Pool, -1)
		state.Nodes = slices.Delete(state.Nodes, i, i+1)
		return nil
	}
	if i < 0 {
		n, err := w.newNode(x, name)
		if err != nil {
			return err
		}
		state.Nodes = append(state.Nodes, n)
		i = len(state.Nodes) - 1
		w.count(n.Pool, 1)
	}
	nodeFields(x, &state.Nodes[i])
	return nil
}

// newNode is a node of its pool's template, unless it is bare.
func (w *World) newNode(x *fields, name string) (plan.Node, error) {
	n := plan.Node{Name: name, Ready: true}
	x.string("pool", &n.Pool)
	if bare := x.has("bare"); n.Pool == "" || bare {
		return n, nil
	}
	for _, p := range w.Sim.State.Pools {
		if p.Name != n.Pool {
			continue
		}
		t := p.Template
		n.Labels, n.Taints, n.CPUMilli, n.MemoryMi, n.Others = t.Labels, t.Taints, t.CPUMilli, t.MemoryMi, t.Others
		n.GPUs = slices.Clone(t.GPUs)
		for c := range n.GPUs {
			n.GPUs[c].Instances = slices.Clone(n.GPUs[c].Instances)
		}
		return n, nil
	}
	return n, fmt.Errorf("there is no pool %s above", n.Pool)
}

// count updates the size and the target of a pool for which they were not stated.
func (w *World) count(pool string, d int) {
	for i := range w.Sim.State.Pools {
		if p := &w.Sim.State.Pools[i]; p.Name == pool {
			if !w.sized[pool] {
				p.Size += d
			}
			if !w.targeted[pool] {
				p.Target += d
			}
		}
	}
}

// nodeFields are read over what a node inherits or already is, and written of a bare
// one. A node that we cordon or drain is cordoned unless another actor has lifted it.
func nodeFields(x *fields, n *plan.Node) {
	x.either("ready", "unready", &n.Ready, true)
	if x.string("cordoned-by", &n.CordonedBy) {
		n.Cordoned = true
	}
	drainFields(x, n)
	x.either("cordoned", "uncordoned", &n.Cordoned, n.CordonedBy != "" || n.Drain != nil)
	x.time("leaves-in", &n.LeavesAt, in)
	x.flag("no-scale-down", &n.NoScaleDown)
	x.flag("holds-data", &n.HoldsData)
	x.flag("soft-tainted", &n.SoftTainted)
	x.time("age", &n.Created, ago)
	x.labels("labels", &n.Labels)
	taintFields(x, &n.Taints)
	x.quantity("cpu", &n.CPUMilli, cpuUnits)
	x.quantity("memory", &n.MemoryMi, memoryUnits)
	resourceFields(x, &n.Others)
	allocatableFields(x, n)
	if x.out == nil {
		equalGPUs(x, &n.GPUs)
	}
	operationFields(x, n)
}

// allocatableFields is allocatable=(REQUEST …), () for nothing.
func allocatableFields(x *fields, n *plan.Node) {
	var offered demand.Demand
	if n.Allocatable != nil && x.out != nil {
		x.out.WriteString(" allocatable=(" + strings.Join(demandWords(*n.Allocatable), " ") + ")")
	} else if x.out == nil && x.items("allocatable", nil, func(it item) error { return readRequest(it, &offered) }) {
		n.Allocatable = &offered
	}
}

// drainFields is draining=5m drain-deadline=5m drain-reason=NodeUnderused.
func drainFields(x *fields, n *plan.Node) {
	d := plan.Draining{}
	if n.Drain != nil {
		d = *n.Drain
	}
	begun := x.timeUnless(n.Drain == nil, "draining", &d.Started, ago)
	x.time("drain-deadline", &d.Deadline, in)
	x.string("drain-reason", (*string)(&d.Reason))
	switch {
	case x.out != nil:
	case x.has("not-draining") && n.Drain != nil:
		n.Drain, n.Cordoned = nil, n.CordonedBy != ""
	case begun:
		n.Drain, n.Cordoned = &d, true
	case n.Drain != nil:
		n.Drain = &d
	case d != plan.Draining{}:
		x.fail("drain-deadline, drain-reason", "want draining=TIME beside them")
	}
}

// operationFields is op=ID op-gpu=0 op-target=(…) …; profiles are named as on
// op-model, by default the GPU's model.
func operationFields(x *fields, n *plan.Node) {
	o := plan.Operation{Phase: plan.PhasePending}
	if x.out != nil && n.Operation != nil {
		o = *n.Operation
	}
	begun := x.value("op", n.Operation == nil, func() string { return o.ID }, func(s string) error { o.ID = s; return nil })
	if !begun && (x.out == nil || n.Operation == nil) {
		return
	}
	x.int("op-gpu", &o.GPU)
	model := ""
	for _, c := range n.GPUs {
		if c.Index == o.GPU {
			model = c.Model.Name
		}
	}
	x.string("op-model", &model)
	places := placements{model: model}
	list(x, "op-target", (*[]mig.Placement)(&o.Target), func(p mig.Placement) string { return placementText(model, p) }, func(it item) (mig.Placement, error) {
		return places.read(it[0].name)
	})
	x.time("op-started", &o.Started, ago)
	x.time("op-deadline", &o.Deadline, in)
	x.value("op-phase", o.Phase == plan.PhasePending, func() string { return string(o.Phase) }, func(s string) error { o.Phase = plan.Phase(s); return nil })
	x.string("op-message", &o.Message)
	if x.out == nil {
		n.Operation = &o
	}
}

package scenario

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

func (w *World) node(x *fields, name string) error {
	is := func(n plan.Node) bool { return n.Name == name }
	n, gone, err := declared(x, &w.Sim.State.Nodes, name, is, func() (plan.Node, error) { return w.newNode(x, name) })
	switch {
	case err != nil:
	case gone:
		w.count(n.Pool, -1)
	default:
		nodeFields(x, n)
	}
	return err
}

// newNode returns a node of its pool's template, or an empty one if it is bare.
func (w *World) newNode(x *fields, name string) (plan.Node, error) {
	n := plan.Node{Name: name, Ready: true}
	x.string("pool", &n.Pool)
	p := w.poolOf(n.Pool)
	if bare := x.has("bare"); n.Pool != "" && !bare {
		if p == nil {
			return n, fmt.Errorf("there is no pool %s above", n.Pool)
		}
		n = sim.NewNode(name, p)
	}
	w.count(n.Pool, 1)
	return n, nil
}

// count adds d to the size and to the target of a pool, each unless it was stated.
func (w *World) count(pool string, d int) {
	p := w.poolOf(pool)
	if p != nil && !w.sized[pool] {
		p.Size += d
	}
	if p != nil && !w.targeted[pool] {
		p.Target += d
	}
}

// nodeFields are the fields of a node. They are read over what the node has from its template
// or from earlier lines, and written as those of a bare node. A node that gpuscale cordons or
// drains is cordoned, unless another actor has uncordoned it.
func nodeFields(x *fields, n *plan.Node) {
	x.either("ready", "unready", &n.Ready, true)
	if x.string("cordoned-by", &n.CordonedBy) {
		n.Cordoned = true
	}
	drainFields(x, n)
	x.either("cordoned", "uncordoned", &n.Cordoned, n.CordonedBy != "" || n.Drain != nil)
	x.time("leaves-in", &n.LeavesAt, in)
	x.time("ready-in", &n.ReadyAt, in)
	x.flag("no-scale-down", &n.NoScaleDown)
	x.flag("holds-data", &n.HoldsData)
	x.flag("soft-tainted", &n.SoftTainted)
	x.time("age", &n.Created, ago)
	x.labels("labels", &n.Labels)
	taintFields(x, &n.Taints)
	x.quantity("cpu", &n.CPUMilli, cpuUnits)
	x.quantity("memory", &n.MemoryMi, memoryUnits)
	resourceFields(x, &n.Others)
	var offered demand.Demand
	if n.Allocatable != nil {
		offered = *n.Allocatable
	}
	if demandFields(x, n.Allocatable == nil, "allocatable", &offered) {
		n.Allocatable = &offered
	}
	if x.out == nil {
		equalGPUs(x, &n.GPUs)
	}
	operationFields(x, n)
}

// drainFields is draining=5m drain-deadline=5m drain-reason=NodeUnderused.
func drainFields(x *fields, n *plan.Node) {
	d := plan.Draining{}
	if n.Drain != nil {
		d = *n.Drain
	}
	begun := x.timeUnless(n.Drain == nil, "draining", &d.Started, ago)
	x.time("drain-deadline", &d.Deadline, in)
	text(x, "drain-reason", &d.Reason, d.Reason == "")
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
	if begun := text(x, "op", &o.ID, n.Operation == nil); !begun && (x.out == nil || n.Operation == nil) {
		return
	}
	x.int("op-gpu", &o.GPU)
	places := placements{}
	for _, c := range n.GPUs {
		if c.Index == o.GPU {
			places.model = c.Model.Name
		}
	}
	x.string("op-model", &places.model)
	list(x, "op-target", (*[]mig.Placement)(&o.Target), places.entry)
	x.time("op-started", &o.Started, ago)
	x.time("op-deadline", &o.Deadline, in)
	text(x, "op-phase", &o.Phase, o.Phase == plan.PhasePending)
	x.string("op-message", &o.Message)
	if x.out == nil {
		n.Operation = &o
	}
}

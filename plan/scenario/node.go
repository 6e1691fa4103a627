package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// readNode reads a node's fields over what it inherits or already is.
func readNode(r *reader, n *plan.Node) {
	r.off("unready", &n.Ready)
	r.flag("ready", &n.Ready)
	r.off("uncordoned", &n.Cordoned)
	r.flag("cordoned", &n.Cordoned)
	if r.string("cordoned-by", &n.CordonedBy) {
		n.Cordoned = true
	}
	readDrain(r, n)
	r.in("leaves-in", &n.LeavesAt)
	r.off("not-cordoned", &n.Cordoned) // beside cordoned-by or draining: lifted by another actor
	r.flag("no-scale-down", &n.NoScaleDown)
	r.flag("holds-data", &n.HoldsData)
	r.flag("soft-tainted", &n.SoftTainted)
	r.ago("age", &n.Created)
	readLabels(r, "labels", &n.Labels)
	readTaints(r, &n.Taints)
	r.quantity("cpu", &n.CPUMilli, cpuUnits)
	r.quantity("memory", &n.MemoryMi, memoryUnits)
	readOthers(r, &n.Others)
	var offered demand.Demand
	if r.items("allocatable", func(it item) error { return readRequest(it, &offered) }) {
		n.Allocatable = &offered
	}
	count := -1
	if r.int("gpus", &count) {
		if count < 0 || count > maxGPUs {
			r.fail("gpus", "want 0 … %d", maxGPUs)
			count = 0
		}
		device := plan.GPU{AllocationKnown: true}
		readGPU(r, &device)
		n.GPUs = nil
		for i := range count {
			device.Index = i
			n.GPUs = append(n.GPUs, device)
		}
	}
	if o, ok := readOperation(r, n); ok {
		n.Operation = o
	}
}

// readDrain reads draining=5m drain-deadline=5m drain-reason=NodeUnderused. A
// draining node is cordoned.
func readDrain(r *reader, n *plan.Node) {
	d := plan.Draining{}
	if n.Drain != nil {
		d = *n.Drain
	}
	begun := r.ago("draining", &d.Started)
	r.in("drain-deadline", &d.Deadline)
	r.text("drain-reason", func(s string) error { d.Reason = plan.Reason(s); return nil })
	over := false
	r.flag("not-draining", &over)
	switch {
	case over && n.Drain != nil:
		n.Drain, n.Cordoned = nil, n.CordonedBy != ""
	case begun:
		n.Drain, n.Cordoned = &d, true
	case n.Drain != nil:
		n.Drain = &d
	case d != plan.Draining{}:
		r.fail("drain-deadline, drain-reason", "want draining=TIME beside them")
	}
}

// readOperation reads op=ID op-gpu=0 op-target=(…) …; profiles are named as on
// op-model, by default the GPU's model.
func readOperation(r *reader, n *plan.Node) (*plan.Operation, bool) {
	o := plan.Operation{Phase: plan.PhasePending}
	if !r.string("op", &o.ID) {
		return nil, false
	}
	r.int("op-gpu", &o.GPU)
	model := ""
	for _, c := range n.GPUs {
		if c.Index == o.GPU {
			model = c.Model.Name
		}
	}
	r.string("op-model", &model)
	var target mig.Layout
	places := placements{model: model}
	if r.items("op-target", func(it item) error {
		p, err := places.read(it[0].name)
		target = append(target, p)
		return err
	}) {
		o.Target = target
	}
	r.ago("op-started", &o.Started)
	r.in("op-deadline", &o.Deadline)
	r.text("op-phase", func(s string) error { o.Phase = plan.Phase(s); return nil })
	r.string("op-message", &o.Message)
	return &o, true
}

func nodeText(n plan.Node, now time.Time) string {
	var b strings.Builder
	b.WriteString("node " + quote(n.Name))
	stringText(&b, "pool", n.Pool)
	b.WriteString(" bare")
	flagText(&b, "unready", !n.Ready)
	stringText(&b, "cordoned-by", n.CordonedBy)
	if d := n.Drain; d != nil {
		b.WriteString(" draining=" + quote(timeText(d.Started, now, -1)))
		inText(&b, "drain-deadline", d.Deadline, now)
		stringText(&b, "drain-reason", string(d.Reason))
	}
	given := n.CordonedBy != "" || n.Drain != nil
	flagText(&b, "not-cordoned", given && !n.Cordoned)
	flagText(&b, "cordoned", !given && n.Cordoned)
	flagText(&b, "no-scale-down", n.NoScaleDown)
	flagText(&b, "holds-data", n.HoldsData)
	flagText(&b, "soft-tainted", n.SoftTainted)
	inText(&b, "leaves-in", n.LeavesAt, now)
	agoText(&b, "age", n.Created, now)
	resourcesText(&b, n.CPUMilli, n.MemoryMi)
	if n.Allocatable != nil {
		if text := demandText("allocatable", *n.Allocatable); text != "" {
			b.WriteString(text)
		} else {
			b.WriteString(" allocatable=()")
		}
	}
	b.WriteString(labelsText("labels", n.Labels))
	b.WriteString(taintsText(n.Taints))
	b.WriteString(othersText(n.Others))
	b.WriteString(operationText(n, now))
	b.WriteByte('\n')
	for _, c := range n.GPUs {
		fmt.Fprintf(&b, "gpu %s%s\n", quote(fmt.Sprintf("%s/%d", n.Name, c.Index)), gpuText(c, now))
	}
	return b.String()
}

func operationText(n plan.Node, now time.Time) string {
	o := n.Operation
	if o == nil {
		return ""
	}
	var b strings.Builder
	model := ""
	for _, c := range n.GPUs {
		if c.Index == o.GPU {
			model = c.Model.Name
		}
	}
	fmt.Fprintf(&b, " op=%s op-gpu=%d", quote(o.ID), o.GPU)
	stringText(&b, "op-model", model)
	if len(o.Target) > 0 {
		b.WriteString(" op-target=" + layoutText(model, o.Target))
	}
	agoText(&b, "op-started", o.Started, now)
	inText(&b, "op-deadline", o.Deadline, now)
	if o.Phase != plan.PhasePending {
		b.WriteString(" op-phase=" + quote(string(o.Phase)))
	}
	stringText(&b, "op-message", o.Message)
	return b.String()
}

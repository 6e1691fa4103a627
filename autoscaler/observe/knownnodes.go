package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// knownNodes caches the content of node objects, and their GPUs of the previous reconcile. A nil
// knownNodes caches nothing.
type knownNodes struct{ perVersion[knownNode] }

type knownNode struct {
	facts nodeFacts
	gpus  []plan.GPU // of the previous reconcile
}

// nodeFacts is the content of a Node object alone: independent of clock, configuration and
// provider.
type nodeFacts struct {
	// Node lacks Pool, LeavesAt and GPUs. Other sources may set Cordoned and NoScaleDown too.
	plan.Node
	devices bool // it advertises accelerators
	shares  int  // of each GPU, where they are given in shares only
	// divided is the GPUs that another project's scheduler divides, nil for none.
	divided *demand.Divided
	// report is the agent's annotation. It is parsed once per version; whether it is trusted is
	// decided elsewhere.
	report    partition.Report
	reportErr error
}

// of returns the cached facts of a node. A node without a resourceVersion is read every time and
// its GPUs are never cached.
func (k *knownNodes) of(c *Claims, n *corev1.Node) *knownNode {
	if k == nil || !numbered(n) {
		return &knownNode{facts: readNode(c, n)}
	}
	return k.get(n, func(known *knownNode) { known.facts = readNode(c, n) })
}

// keep returns the node's GPUs: those of the previous reconcile if equal, as they mostly are, since
// GPUs would be a sixth of a reconcile's garbage. The argument may be reused afterwards.
func (n *knownNode) keep(gpus []plan.GPU) []plan.GPU {
	same := n.gpus != nil && len(n.gpus) == len(gpus)
	for i := 0; same && i < len(gpus); i++ {
		same = sameGPU(&n.gpus[i], &gpus[i])
	}
	if !same {
		n.gpus = append(make([]plan.GPU, 0, len(gpus)), gpus...)
	}
	return n.gpus
}

// sameGPU compares all fields of two GPUs.
func sameGPU(a, b *plan.GPU) bool {
	return a.Device == b.Device && a.MIG == b.MIG && a.Shared == b.Shared && a.Places == b.Places && a.AllocationKnown == b.AllocationKnown && a.Busy == b.Busy &&
		a.IdleSince == b.IdleSince && a.UnusedSince == b.UnusedSince &&
		slices.Equal(a.AllocatedTo, b.AllocatedTo) && slices.Equal(a.Instances, b.Instances)
}

func readNode(c *Claims, n *corev1.Node) nodeFacts {
	out := nodeFacts{devices: offersDevices(n), shares: sharesOf(n), Node: plan.Node{
		Name: n.Name, Labels: n.Labels,
		Ready: ready(n) && n.DeletionTimestamp == nil, Cordoned: n.Spec.Unschedulable,
		CordonedBy:  cordonedBy(n),
		Created:     n.CreationTimestamp.Time,
		CPUMilli:    n.Status.Allocatable.Cpu().MilliValue(),
		MemoryMi:    n.Status.Allocatable.Memory().Value() >> 20,
		Operation:   partition.OperationOf(n),
		NoScaleDown: v1alpha1.ScaleDownDisabled(n),
		Allocatable: offer(n),
		Drain:       draining(n),
		HoldsData:   holdsData(n.Labels),
		SoftTainted: v1alpha1.SoftTainted(n),
		UID:         string(n.UID),
		Others:      c.others(n.Status.Allocatable),
	}}
	if d, ok := dividedNode(n); ok {
		out.divide(d)
	}
	if text := n.Annotations[partition.LayoutAnnotation]; text != "" {
		out.report, out.reportErr = partition.ParseReport(text)
	}
	for _, t := range n.Spec.Taints {
		if !lifecycleTaints[t.Key] && t.Key != v1alpha1.EmptyTaint {
			out.Taints = append(out.Taints, plan.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

package observe

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// knownNodes caches the content of node objects. A nil knownNodes caches nothing.
type knownNodes struct{ perVersion[nodeFacts] }

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

// of returns the cached facts of a node. A node without a resourceVersion is read every time.
func (k *knownNodes) of(c *Claims, n *corev1.Node) *nodeFacts {
	if k == nil || !numbered(n) {
		facts := readNode(c, n)
		return &facts
	}
	return k.get(n, func(facts *nodeFacts) { *facts = readNode(c, n) })
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

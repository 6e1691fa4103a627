package foreign

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// UpcomingNode is a node that Karpenter makes: its labels, taints, allocatable resources, and providerID.
type UpcomingNode struct {
	corev1.Node
	// Launched: the cloud has made the machine. Before that, the resources are those that the NodeClaim requests, the
	// least that the node will have.
	Launched bool
}

// parseNodeClaim reads a NodeClaim of Karpenter (2266468, pkg/controllers/nodeclaim/lifecycle). Once it is launched it
// has the cloud's labels and the expected allocatable resources. A node with extended resources is initialized when its
// device plugin offers them. Pods need not tolerate startup taints.
func parseNodeClaim(f fields, o *Object) {
	is := f.conditions()
	if o.DeletionTimestamp != nil || isTrue(is, "Initialized", "InstanceTerminating") ||
		meta.IsStatusConditionFalse(is, "Launched") || meta.IsStatusConditionFalse(is, "Registered") {
		return
	}
	n := &UpcomingNode{Launched: isTrue(is, "Launched")}
	n.Labels = map[string]string{}
	for _, r := range f.list("spec.requirements") {
		if values := into[[]string](r, "values"); r.text("operator") == string(corev1.NodeSelectorOpIn) && len(values) == 1 {
			n.Labels[r.text("key")] = values[0]
		}
	}
	maps.Copy(n.Labels, o.Labels)
	n.Spec.Taints = into[[]corev1.Taint](f, "spec.taints")
	n.Spec.ProviderID = f.text("status.providerID")
	if n.Status.Allocatable = f.resources("status.allocatable"); len(n.Status.Allocatable) == 0 {
		n.Status.Allocatable = f.resources("spec.resources.requests")
	}
	o.Upcoming = n
}

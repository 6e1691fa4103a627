package foreign

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpcomingNode is a node that Karpenter makes: its labels, taints, allocatable resources, and providerID.
type UpcomingNode struct {
	corev1.Node
	// Launched: the cloud has made the machine. Before that, the resources are those that the NodeClaim requests, the
	// least that the node will have.
	Launched bool
	// Drivers are the DRA drivers whose devices its pods request. How many devices they request is not known.
	Drivers []string
}

// requestedDrivers is the annotation with the DRA drivers of a NodeClaim's pods (2266468, pkg/apis/v1/labels.go).
const requestedDrivers = "karpenter.sh/requested-dra-drivers"

// parseNodeClaim reads a NodeClaim of Karpenter (2266468, pkg/controllers/nodeclaim/lifecycle). Once it is launched it
// has the cloud's labels and the expected allocatable resources. A node with extended resources is initialized when its
// device plugin offers them. Pods need not tolerate startup taints. Nothing is kept of a node without extended
// resources and DRA drivers.
func parseNodeClaim(f fields, o *Object) {
	n := &UpcomingNode{}
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
	if drivers := f.names("metadata.annotations")[requestedDrivers]; drivers != "" {
		n.Drivers = strings.Split(drivers, ",")
	}
	extended := len(n.Drivers) > 0
	for name := range n.Status.Allocatable {
		extended = extended || strings.Contains(string(name), "/")
	}
	is := f.conditions()
	n.Launched = isTrue(is, "Launched")
	if !extended || o.DeletionTimestamp != nil || isTrue(is, "Initialized", "InstanceTerminating") ||
		meta.IsStatusConditionFalse(is, "Launched") || meta.IsStatusConditionFalse(is, "Registered") {
		o.ObjectMeta = metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion}
		return
	}
	o.Upcoming = n
}

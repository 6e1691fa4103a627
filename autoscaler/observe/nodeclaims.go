package observe

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// launchWithin and registerWithin are how long after its creation Karpenter deletes a NodeClaim that has no machine, or
// whose machine is no node (2266468, pkg/controllers/nodeclaim/lifecycle/liveness.go). A NodeClaim is no supply after
// that, whether Karpenter runs or not.
const launchWithin, registerWithin = 5 * time.Minute, 15 * time.Minute

// addUpcoming adds the GPU nodes that Karpenter makes for NodePools of its own. Pods wait for them; without them, a pool
// would add a second node for a pod for which Karpenter makes one. A node that has registered counts so until its device
// plugin or DRA driver offers the GPUs. The target of a valid pool counts the NodeClaims of its NodePool.
func (o *Observer) addUpcoming(c *cluster) {
	c.upcoming = map[string]time.Time{}
	for _, claim := range c.foreign.Sorted(foreign.NodeClaim) {
		up := claim.Upcoming
		if up == nil {
			continue
		}
		within := launchWithin
		if up.Launched {
			within = registerWithin
		}
		byClaim := demand.OneOf(up.Drivers) // the least that it offers by claims
		if offersDevices(&up.Node) {
			byClaim = demand.Demand{}
		} else if byClaim.Zero() {
			continue
		}
		if c.now.Sub(claim.CreationTimestamp.Time) >= within || o.ofPool(claim.Labels) {
			continue
		}
		n := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion, CreationTimestamp: claim.CreationTimestamp, Labels: up.Labels},
			Spec:       corev1.NodeSpec{Taints: up.Spec.Taints},
			Status:     corev1.NodeStatus{Allocatable: up.Status.Allocatable},
		}
		at := slices.IndexFunc(c.nodes.Items, func(have corev1.Node) bool {
			return have.Name == claim.Name || have.Spec.ProviderID != "" && have.Spec.ProviderID == up.Spec.ProviderID
		})
		if at < 0 {
			c.nodes.Items = append(c.nodes.Items, n)
		} else {
			have := &c.nodes.Items[at]
			if offersDevices(have) || c.claimable[have.Name] != nil {
				continue
			}
			n.Name, n.ResourceVersion, n.Spec.Unschedulable = have.Name, n.ResourceVersion+"/"+have.ResourceVersion, have.Spec.Unschedulable
			n.Labels = maps.Clone(up.Labels)
			maps.Copy(n.Labels, have.Labels)
			c.nodes.Items[at] = n
		}
		if !byClaim.Zero() {
			c.claimable[n.Name] = &claimable{Demand: byClaim}
		}
		c.upcoming[n.Name] = claim.CreationTimestamp.Add(defaultReadyAfter)
	}
}

// ofPool reports whether Karpenter makes a node with these labels for the target of a valid pool.
func (o *Observer) ofPool(labels map[string]string) bool {
	for _, m := range o.managed {
		if m.err == nil && pools.IsTargetOf(m.GPUNodePool, labels) {
			return true
		}
	}
	return false
}

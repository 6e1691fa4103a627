package observe

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// launchWithin and registerWithin are how long after its creation Karpenter deletes a NodeClaim that has no machine, or
// whose machine is no node (2266468, pkg/controllers/nodeclaim/lifecycle/liveness.go). A NodeClaim is no supply after
// that, whether Karpenter runs or not.
const launchWithin, registerWithin = 5 * time.Minute, 15 * time.Minute

// addUpcoming adds the GPU nodes that Karpenter makes for NodePools of its own. Pods wait for them; without them, a pool
// would add a second node for a pod for which Karpenter makes one. A node that has registered counts so until its device
// plugin offers the GPUs. The target of a pool counts the NodeClaims of its NodePool.
func (c *cluster) addUpcoming() {
	c.upcoming = map[string]time.Time{}
	for _, o := range c.foreign.Sorted(foreign.NodeClaim) {
		within := launchWithin
		if o.Upcoming != nil && o.Upcoming.Launched {
			within = registerWithin
		}
		if o.Upcoming == nil || !offersDevices(&o.Upcoming.Node) || c.now.Sub(o.CreationTimestamp.Time) >= within || c.ofPool(o.Labels) {
			continue
		}
		n := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp, Labels: o.Upcoming.Labels},
			Spec:       corev1.NodeSpec{Taints: o.Upcoming.Spec.Taints},
			Status:     corev1.NodeStatus{Allocatable: o.Upcoming.Status.Allocatable},
		}
		at := len(c.nodes.Items)
		for i := range c.nodes.Items {
			if have := &c.nodes.Items[i]; have.Name == o.Name || have.Spec.ProviderID != "" && have.Spec.ProviderID == o.Upcoming.Spec.ProviderID {
				at = i
				break
			}
		}
		if at == len(c.nodes.Items) {
			c.nodes.Items = append(c.nodes.Items, n)
		} else {
			have := &c.nodes.Items[at]
			if offersDevices(have) {
				continue
			}
			n.Name, n.ResourceVersion, n.Spec.Unschedulable = have.Name, n.ResourceVersion+"/"+have.ResourceVersion, have.Spec.Unschedulable
			n.Labels = maps.Clone(o.Upcoming.Labels)
			maps.Copy(n.Labels, have.Labels)
			c.nodes.Items[at] = n
		}
		c.upcoming[n.Name] = o.CreationTimestamp.Add(defaultReadyAfter)
	}
}

// ofPool reports whether Karpenter makes a node with these labels for a pool's target.
func (c *cluster) ofPool(labels map[string]string) bool {
	for i := range c.pools.Items {
		if pools.IsTargetOf(&c.pools.Items[i], labels) {
			return true
		}
	}
	return false
}

package observe

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// MIG instances that a node offers as GPUs.

// profileAsGPU returns the profile of the MIG devices that a node offers as GPUs, empty for none; all are alike. The
// profile is in GKE's label, or in the product as feature discovery (v0.19.3, internal/lm) writes it under the strategy
// "single".
func profileAsGPU(n *corev1.Node) string {
	if !plan.InstancesAsGPUs(n.Labels) || replicasOf(n) > 1 || partition.Advertised(n)[partition.GPUResource] == 0 {
		return ""
	}
	_, profile, _ := strings.Cut(n.Labels[partition.ProductLabel], "-MIG-")
	return cmp.Or(n.Labels[plan.GKEPartition], profile)
}

// carriers returns the smallest number of GPUs that can have the MIG devices which the node offers as GPUs; 0 where it
// is not known.
func (in nodeInput) carriers(model string) (n int) {
	table, ok := in.Tables.ForModel(model)
	for resource, offered := range in.facts.instances {
		name, _ := mig.ProfileOfResource(resource)
		if !ok {
			return 0
		}
		if profile, ok := table.Exact(name); ok {
			each := int64(len(table.Starts(profile)))
			n += int(min((offered+each-1)/each, maxGPUs))
		}
	}
	return n
}

// instancesFromPods is fromPods for MIG devices that are offered as GPUs: all are alike, and they are not
// repartitioned.
func instancesFromPods(in nodeInput, gpus []plan.GPU) bool {
	layouts := spread(in.facts.instances, gpus, in.Tables)
	if in.reading != nil || layouts == nil {
		return false
	}
	var left []*plan.Instance
	for i := range gpus {
		c := &gpus[i]
		forgetAllocations(c)
		c.MIG, c.AllocationKnown, c.Instances = true, true, unplaced(layouts[i])
		for k := range c.Instances {
			left = append(left, &c.Instances[k])
		}
	}
	for _, p := range in.boundByName() {
		if p.Unreadable != "" || p.Demand.GPUs > len(left) {
			return false
		}
		for _, i := range left[:p.Demand.GPUs] {
			i.AllocatedTo = p.Key()
		}
		left = left[p.Demand.GPUs:]
	}
	return true
}

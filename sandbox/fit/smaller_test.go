package fit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gpuscale/gpuscale/internal/require"
)

// smaller removes from a cluster everything that does not affect a difference.
func (s *scheduler) smaller(t *testing.T, c *testCase, of string) *testCase {
	t.Helper()
	for {
		less := s.less(t, c, of)
		if less == nil {
			return c
		}
		c = less
	}
}

// less removes one thing; it returns nil if every thing matters.
func (s *scheduler) less(t *testing.T, c *testCase, of string) *testCase {
	t.Helper()
	before, err := json.Marshal(c)
	require.NoError(t, err)
	for _, remove := range removals(c) {
		var less testCase
		require.NoError(t, json.Unmarshal(before, &less))
		remove(&less)
		after, err := json.Marshal(less)
		require.NoError(t, err)
		if bytes.Equal(before, after) || less.lacksClaim() {
			continue
		}
		if _, all := s.compare(t, &less); slices.ContainsFunc(all, func(d difference) bool { return d.of == of }) {
			return &less
		}
	}
	return nil
}

// lacksClaim reports whether the pending pod uses a claim of a pod that is gone. The scheduler and the planner refuse such a
// pod; the simulator is not asked to.
func (c *testCase) lacksClaim() bool {
	there := c.claimed()
	return slices.ContainsFunc(c.Pod.Spec.ResourceClaims, func(r core.PodResourceClaim) bool {
		return r.ResourceClaimName != nil && !slices.ContainsFunc(there, func(claim *resourcev1.ResourceClaim) bool { return claim.Name == *r.ResourceClaimName })
	})
}

// removals returns all ways to make a cluster smaller by one thing.
func removals(c *testCase) (all []func(*testCase)) {
	for i := range c.Pods {
		all = append(all, func(c *testCase) { c.Pods = slices.Delete(c.Pods, i, i+1) })
	}
	for i := range c.Nodes {
		all = append(all, func(c *testCase) {
			name := c.Nodes[i].Name
			c.Nodes = slices.Delete(c.Nodes, i, i+1)
			c.Pods = slices.DeleteFunc(c.Pods, func(p *core.Pod) bool { return p.Spec.NodeName == name })
		}, func(c *testCase) {
			c.Nodes[i].Spec.Taints = slices.DeleteFunc(c.Nodes[i].Spec.Taints, func(t core.Taint) bool { return !strings.HasPrefix(t.Key, "node.kubernetes.io/") })
		})
		for key := range c.Nodes[i].Labels {
			if key != host && !(key == zone && len(c.Claims) > 0) {
				all = append(all, func(c *testCase) { delete(c.Nodes[i].Labels, key) })
			}
		}
	}
	for i := range c.Pools {
		all = append(all, func(c *testCase) { c.Pools = slices.Delete(c.Pools, i, i+1) })
	}
	all = append(all, func(c *testCase) {
		c.Claims, c.Volumes, c.Classes, c.CSINodes = nil, nil, nil, nil
		for _, p := range append(c.Pods, c.Pod) {
			p.Spec.Volumes = nil
		}
	})
	all = append(all, func(c *testCase) { c.TaintRules = nil })
	for i := range c.ResourceSlices {
		for k := range c.ResourceSlices[i].Spec.Devices {
			all = append(all, func(c *testCase) { c.ResourceSlices[i].Spec.Devices[k].Taints = nil })
		}
	}
	for i := range len(c.Pods) + 1 {
		for _, remove := range removalsOfPod {
			all = append(all, func(c *testCase) {
				if i < len(c.Pods) {
					remove(c.Pods[i])
				} else {
					remove(c.Pod)
				}
			})
		}
	}
	return all
}

var removalsOfPod = []func(*core.Pod){
	func(p *core.Pod) { p.Spec.TopologySpreadConstraints = nil },
	func(p *core.Pod) {
		if l := p.Spec.TopologySpreadConstraints; len(l) > 1 {
			p.Spec.TopologySpreadConstraints = l[1:]
		}
	},
	func(p *core.Pod) {
		if l := p.Spec.TopologySpreadConstraints; len(l) > 1 {
			p.Spec.TopologySpreadConstraints = l[:1]
		}
	},
	func(p *core.Pod) { p.Spec.Affinity = nil },
	func(p *core.Pod) { affinityOf(p).NodeAffinity = nil },
	func(p *core.Pod) { affinityOf(p).PodAffinity = nil },
	func(p *core.Pod) { affinityOf(p).PodAntiAffinity = nil },
	func(p *core.Pod) { p.Spec.NodeSelector = nil },
	func(p *core.Pod) { p.Spec.Tolerations = nil },
	func(p *core.Pod) { p.Spec.Volumes = nil },
	func(p *core.Pod) {
		if !resizes(p) {
			p.Spec.InitContainers = nil
		}
	},
	func(p *core.Pod) {
		if !resizes(p) {
			p.Spec.Containers = p.Spec.Containers[:1]
		}
	},
	func(p *core.Pod) { p.Spec.Containers[0].Ports = nil },
	func(p *core.Pod) { p.Spec.Overhead, p.Spec.Resources = nil, nil },
	func(p *core.Pod) { p.DeletionTimestamp = nil },
	func(p *core.Pod) {
		if resizes(p) {
			p.Status = core.PodStatus{Phase: p.Status.Phase, ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus}
		}
	},
	func(p *core.Pod) { delete(p.Spec.Containers[0].Resources.Requests, core.ResourceCPU) },
	func(p *core.Pod) { delete(p.Spec.Containers[0].Resources.Requests, core.ResourceMemory) },
}

// resizes reports whether a pod's status is from a resize in place. That status lists the containers, so none
// of them is removed while the pod has it.
func resizes(p *core.Pod) bool { return p.Status.ContainerStatuses != nil }

// affinityOf returns a pod's affinity; if it has none, a new one to write to.
func affinityOf(p *core.Pod) *core.Affinity {
	if p.Spec.Affinity == nil {
		return &core.Affinity{}
	}
	return p.Spec.Affinity
}

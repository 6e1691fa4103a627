package fit

import (
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/require"
)

const (
	// byDRA is the driver that offers GPUs where no device plugin does, and the class of its GPUs.
	byDRA = "gpu.nvidia.com"
	// product is every GPU's, as the driver names it.
	product = "NVIDIA L4"
)

// claims has a DRA driver offer the GPUs of all nodes in place of a device plugin, and pods claim them.
func (d dice) claims(c *testCase) {
	c.DeviceClasses = []*resourcev1.DeviceClass{{ObjectMeta: meta.ObjectMeta{Name: byDRA}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors("device.driver == '" + byDRA + "' && device.attributes['" + byDRA + "'].type == 'gpu'")}}}
	free := map[string][]string{} // GPUs, by node
	for _, n := range c.Nodes {
		count := n.Status.Allocatable.Name(gpus, "").Value()
		delete(n.Status.Allocatable, gpus)
		delete(n.Status.Capacity, gpus)
		if count == 0 {
			continue
		}
		s := slice(n.Name, int(count))
		for i, device := range s.Spec.Devices {
			free[n.Name] = append(free[n.Name], device.Name)
			if d.chance(15) {
				s.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{{Key: "xid", Effect: pick(d, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)}}
			}
		}
		d.Shuffle(len(free[n.Name]), func(i, j int) { l := free[n.Name]; l[i], l[j] = l[j], l[i] })
		c.ResourceSlices = append(c.ResourceSlices, s)
	}
	if len(c.ResourceSlices) > 0 && d.chance(20) {
		c.TaintRules = []*resourcev1.DeviceTaintRule{{ObjectMeta: meta.ObjectMeta{Name: "rule"}, Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: ptr.To(byDRA), Pool: ptr.To(pick(d, c.Nodes...).Name), Device: pick(d, nil, ptr.To("gpu-0"))},
			Taint:          resourcev1.DeviceTaint{Key: "rule", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		}}}
	}
	if slices.ContainsFunc(c.Pods, func(p *core.Pod) bool { return p.DeletionTimestamp != nil }) { // see doc.go
		c.TaintRules = nil
		for _, s := range c.ResourceSlices {
			for i := range s.Spec.Devices {
				s.Spec.Devices[i].Taints = nil
			}
		}
	}
	for _, p := range append(slices.Clone(c.Pods), c.Pod) {
		count := int(p.Spec.Containers[0].Resources.Requests.Name(gpus, "").Value())
		delete(p.Spec.Containers[0].Resources.Requests, gpus)
		for _, st := range p.Status.ContainerStatuses {
			delete(st.AllocatedResources, gpus)
			delete(st.Resources.Requests, gpus)
		}
		if p.UID = types.UID(p.Name); count == 0 {
			continue
		}
		claim := d.claim(p, count)
		if d.chance(15) {
			watch := claimOf(p, "watch")
			watch.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "watch", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: byDRA, AllocationMode: resourcev1.DeviceAllocationModeAll, AdminAccess: ptr.To(true),
				Tolerations: []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}},
			}}}
			c.ResourceClaims = append(c.ResourceClaims, watch)
		}
		if n := p.Spec.NodeName; n != "" {
			allocate(claim, p, free[n][:count])
			free[n] = free[n][count:]
		}
		if p.Status.Phase != core.PodSucceeded && p.Status.Phase != core.PodFailed { // of those it is deleted
			c.ResourceClaims = append(c.ResourceClaims, claim)
		}
	}
}

func selectors(expressions ...string) (out []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return out
}

// slice has a node's GPUs.
func slice(node string, count int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: node}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: byDRA, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for i := range count {
		name := "gpu-" + strconv.Itoa(i)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": {StringValue: ptr.To("gpu")}, "productName": {StringValue: ptr.To(product)}, "uuid": {StringValue: ptr.To(node + name)},
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("23034Mi")}},
		})
	}
	return s
}

// claimOf is a claim that is made for a pod by a template.
func claimOf(p *core.Pod, name string) *resourcev1.ResourceClaim {
	made := p.Name + "-" + name
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, core.PodResourceClaim{Name: name, ResourceClaimTemplateName: &name})
	p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, core.ResourceClaim{Name: name})
	p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, core.PodResourceClaimStatus{Name: name, ResourceClaimName: &made})
	out := &resourcev1.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: p.Namespace, Name: made, UID: types.UID(p.Namespace + made), ResourceVersion: "1"}}
	out.OwnerReferences = []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	return out
}

// claim is a pod's for so many GPUs.
func (d dice) claim(p *core.Pod, count int) *resourcev1.ResourceClaim {
	out := claimOf(p, "gpus")
	if d.chance(20) { // its own, not a template's
		p.Spec.ResourceClaims[0] = core.PodResourceClaim{Name: "gpus", ResourceClaimName: &out.Name}
		out.OwnerReferences, p.Status.ResourceClaimStatuses = nil, nil
	}
	var each []resourcev1.ExactDeviceRequest
	for left := int64(count); left > 0; {
		one := resourcev1.ExactDeviceRequest{DeviceClassName: byDRA, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1 + d.Int64N(left)}
		if d.chance(20) {
			of := product
			if p.Name == pending && d.chance(20) {
				of = "NVIDIA L40S"
			}
			one.Selectors = selectors("device.attributes['" + byDRA + "'].productName == '" + of + "'")
		}
		left -= one.Count
		each = append(each, one)
	}
	for i, one := range each {
		r := resourcev1.DeviceRequest{Name: "r" + strconv.Itoa(i), Exactly: &one}
		if d.chance(15) {
			r.Exactly, r.FirstAvailable = nil, []resourcev1.DeviceSubRequest{{Name: "first", DeviceClassName: one.DeviceClassName, AllocationMode: one.AllocationMode, Count: one.Count, Selectors: one.Selectors}}
		}
		out.Spec.Devices.Requests = append(out.Spec.Devices.Requests, r)
	}
	return out
}

// allocate gives a pod's claim these devices of its node.
func allocate(claim *resourcev1.ResourceClaim, p *core.Pod, devices []string) {
	a := &resourcev1.AllocationResult{NodeSelector: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
		MatchFields: []core.NodeSelectorRequirement{{Key: meta.ObjectNameField, Operator: core.NodeSelectorOpIn, Values: []string{p.Spec.NodeName}}},
	}}}}
	given := func(request, device string) {
		a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: request, Driver: byDRA, Pool: p.Spec.NodeName, Device: device})
	}
	for _, r := range claim.Spec.Devices.Requests {
		switch {
		case r.Exactly == nil:
			for range r.FirstAvailable[0].Count {
				given(r.Name+"/first", devices[0])
				devices = devices[1:]
			}
		default:
			for range r.Exactly.Count {
				given(r.Name, devices[0])
				devices = devices[1:]
			}
		}
	}
	claim.Status.Allocation = a
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
}

// watched are the objects that the autoscaler reads without their Go types.
func (c *testCase) watched(t require.T) foreign.Objects {
	out := foreign.Objects{}
	for _, s := range c.ResourceSlices {
		out.Add(foreign.Parse(foreign.DRASlice, untyped(t, s)))
	}
	for _, r := range c.TaintRules {
		out.Add(foreign.Parse(foreign.DRATaint, untyped(t, r)))
	}
	return out
}

func untyped(t require.T, o runtime.Object) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: fields}
}

// claimed are the claims of pods that exist: with the others theirs are gone.
func (c *testCase) claimed() []*resourcev1.ResourceClaim {
	pods := append(slices.Clone(c.Pods), c.Pod)
	return slices.DeleteFunc(slices.Clone(c.ResourceClaims), func(claim *resourcev1.ResourceClaim) bool {
		return !slices.ContainsFunc(pods, func(p *core.Pod) bool {
			return p.Namespace == claim.Namespace && strings.HasPrefix(claim.Name, p.Name+"-")
		})
	})
}

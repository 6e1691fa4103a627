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

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/require"
)

const (
	// byDRA is the driver that offers GPUs in place of a device plugin, and the class of its GPUs; migs is the class
	// of its MIG devices.
	byDRA, migs = "gpu.nvidia.com", "mig.nvidia.com"
	// nics is the driver of network adapters, and their class. root is the attribute that an adapter shares with the
	// GPUs beside it.
	nics, root = "dra.net", "resource.kubernetes.io/pcieRoot"
)

// byClaim makes a DRA driver offer the GPUs of all or some nodes in place of a device plugin. Pods claim
// them, or request them as an extended resource that the driver's class serves.
func (d dice) byClaim(c *testCase) {
	class := &resourcev1.DeviceClass{ObjectMeta: meta.ObjectMeta{Name: byDRA}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors("device.driver == '" + byDRA + "' && device.attributes['" + byDRA + "'].type == 'gpu'")}}
	resources := []core.ResourceName{core.ResourceName(resourcev1.ResourceDeviceClassPrefix + byDRA)}
	if d.chance(70) { // as the driver's chart sets it
		class.Spec.ExtendedResourceName, resources = ptr.To(gpus), append(resources, gpus, gpus)
	}
	c.DeviceClasses = []*resourcev1.DeviceClass{class, {ObjectMeta: meta.ObjectMeta{Name: migs}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors("device.driver == '" + byDRA + "' && device.attributes['" + byDRA + "'].type == 'mig'")}}}
	c.DeviceClasses = append(c.DeviceClasses, &resourcev1.DeviceClass{ObjectMeta: meta.ObjectMeta{Name: nics}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors("device.driver == '" + nics + "'")}})
	c.Mixed, c.Dynamic = d.chance(40), c.Pools[0].Spec.MIG != nil && d.chance(40)
	if c.Dynamic {
		for _, p := range c.Pools {
			p.Spec.MIG = nil
		}
	}
	if c.Mixed {
		for _, p := range c.Pools {
			c.Plugged = append(c.Plugged, some(d, 50, p.Name)...)
		}
	}
	for _, p := range c.Pools {
		c.Adapters = append(c.Adapters, some(d, 70, p.Name)...)
	}
	free := map[string]map[core.ResourceName][]string{} // unallocated devices by node
	for _, n := range c.Nodes {
		pool, of := n.Labels[v1alpha1.NodePoolLabel]
		if n.Name == "cpu" || slices.Contains(c.Plugged, pool) || !of && c.Mixed && d.chance(50) {
			continue
		}
		free[n.Name] = devicesOf(n)
		for _, name := range devices {
			l := free[n.Name][name]
			d.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		}
		for _, s := range slicesOf(n, c.Dynamic) {
			all := c.Dynamic && d.chance(15) // taint all devices, since GPUs are divided as they are claimed; see doc.go
			effect := pick(d, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone)
			for i := range s.Spec.Devices {
				if all || !c.Dynamic && i > 0 && d.chance(15) {
					s.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{{Key: "xid", Effect: effect}}
				}
			}
			c.ResourceSlices = append(c.ResourceSlices, s)
		}
		if of && slices.Contains(c.Adapters, pool) || !of && d.chance(50) {
			c.ResourceSlices = append(c.ResourceSlices, adaptersOf(n))
			for _, a := range adaptersOf(n).Spec.Devices {
				free[n.Name][nics] = append(free[n.Name][nics], a.Name)
			}
		}
		withdraw(n)
	}
	if len(c.ResourceSlices) > 0 && d.chance(20) {
		c.TaintRules = []*resourcev1.DeviceTaintRule{{ObjectMeta: meta.ObjectMeta{Name: "rule"}, Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: ptr.To(byDRA), Pool: ptr.To(pick(d, c.Nodes...).Name), Device: pick(d, nil, ptr.To("gpu-0"))},
			Taint:          resourcev1.DeviceTaint{Key: "rule", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		}}}
	}
	if c.Dynamic && c.TaintRules != nil {
		c.TaintRules[0].Spec.DeviceSelector.Device = nil
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
		p.UID = types.UID(p.Name)
		over := p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed // their claims are deleted
		n := p.Spec.NodeName
		name, count := deviceOf(p)
		claimed := free[n] != nil || n == "" && !(c.Mixed && d.chance(30))
		if count == 0 || !claimed {
			continue
		}
		var claim *resourcev1.ResourceClaim
		if name == gpus && d.chance(40) {
			claim = extended(p, pick(d, resources...))
		} else {
			withoutDevices(p)
			claim = d.claim(p, name, count, productOf(c.Nodes[0]))
		}
		if n == "" && d.chance(15) {
			d.share(c)
		}
		byName := claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != ""
		if d.chance(15) && len(p.Spec.ResourceClaims) > 0 && name == gpus && !byName && !c.Dynamic { // see doc.go
			watch := claimOf(p, "watch")
			watch.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "watch", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: byDRA, AllocationMode: resourcev1.DeviceAllocationModeAll, AdminAccess: ptr.To(true),
				Tolerations: []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}},
			}}}
			c.ResourceClaims = append(c.ResourceClaims, watch)
		}
		if n != "" {
			free[n][name] = allocate(claim, p, byDRA, free[n][name])
		}
		if n != "" && len(free[n][nics]) > 0 && d.chance(40) {
			beside := claimOf(p, "nic")
			beside.Spec.Devices.Requests = []resourcev1.DeviceRequest{adapters(1)}
			free[n][nics] = allocate(beside, p, nics, free[n][nics])
			if !over {
				c.ResourceClaims = append(c.ResourceClaims, beside)
			}
		}
		if n == "" && name == gpus && len(claim.Spec.Devices.Requests) > 0 && !c.Dynamic && d.chance(50) {
			c.More = true
			d.more(claim)
		}
		if !over && len(claim.Spec.Devices.Requests) > 0 {
			c.ResourceClaims = append(c.ResourceClaims, claim)
		}
	}
}

// share makes the pending pod also use a claim of another pod. Claims that the scheduler makes for extended resources are
// left out: no user names those.
func (d dice) share(c *testCase) {
	var of []*resourcev1.ResourceClaim
	for _, claim := range c.ResourceClaims {
		stays := func(p *core.Pod) bool {
			return p.Namespace == claim.Namespace && strings.HasPrefix(claim.Name, p.Name+"-") && p.DeletionTimestamp == nil
		}
		if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "" && claim.Namespace == c.Pod.Namespace && claim.Status.Allocation != nil && !c.Dynamic && slices.ContainsFunc(c.Pods, stays) {
			of = append(of, claim)
		}
	}
	if len(of) > 0 {
		c.Pod.Spec.ResourceClaims = append(c.Pod.Spec.ResourceClaims, core.PodResourceClaim{Name: "shared", ResourceClaimName: &pick(d, of...).Name})
		c.Pod.Spec.Containers[0].Resources.Claims = append(c.Pod.Spec.Containers[0].Resources.Claims, core.ResourceClaim{Name: "shared"})
	}
}

// more makes a claim require more of its devices than their number.
func (d dice) more(claim *resourcev1.ResourceClaim) {
	requests := &claim.Spec.Devices.Requests
	first := &(*requests)[0]
	selected := func(expression string) {
		if first.Exactly != nil {
			first.Exactly.Selectors = append(first.Exactly.Selectors, selectors(expression)...)
		} else {
			first.FirstAvailable[0].Selectors = append(first.FirstAvailable[0].Selectors, selectors(expression)...)
		}
	}
	beside := resourcev1.DeviceConstraint{MatchAttribute: ptr.To[resourcev1.FullyQualifiedName](root)}
	switch d.IntN(6) {
	case 0:
		*requests = append(*requests, adapters(1+d.Int64N(2)))
	case 1:
		*requests = append(*requests, adapters(1))
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, beside)
	case 2:
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, beside)
	case 3:
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourcev1.DeviceConstraint{DistinctAttribute: beside.MatchAttribute})
	case 4:
		selected("device.capacity['" + byDRA + "'].memory.compareTo(quantity('" + pick(d, "30Gi", "40Gi", "50Gi") + "')) >= 0")
	case 5:
		selected("device.attributes['" + byDRA + "'].architecture " + pick(d, "== 'Ampere'", "== 'Hopper'", "!= 'Hopper'"))
	}
}

// adapters makes a request for network adapters.
func adapters(count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "nic", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: nics, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}
}

// adaptersOf returns the network adapters of a node. Each is beside two GPUs.
func adaptersOf(n *core.Node) *resourcev1.ResourceSlice {
	s := sliceOf(n, "-nics", 1)
	s.Spec.Driver = nics
	for i := range (gpuCount(n) + 1) / 2 {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: "nic-" + strconv.Itoa(i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{root: text("pci" + strconv.Itoa(i))}})
	}
	return s
}

// extended makes a pod request its GPUs by the name of a resource that a class serves. The scheduler creates
// the claim after it has found a node.
func extended(p *core.Pod, name core.ResourceName) *resourcev1.ResourceClaim {
	rename(p, gpus, name)
	made := p.Name + "-extended-resources"
	out := &resourcev1.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: p.Namespace, Name: made, UID: types.UID(p.Namespace + made), ResourceVersion: "1"}}
	out.OwnerReferences = []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	out.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	if p.Spec.NodeName != "" {
		count := amountOf(p, name)
		out.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "container-0-request-0", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: byDRA, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		}}}
		p.Status.ExtendedResourceClaimStatus = &core.PodExtendedResourceClaimStatus{ResourceClaimName: made, RequestMappings: []core.ContainerExtendedResourceRequest{{
			ContainerName: "main", ResourceName: string(name), RequestName: "container-0-request-0",
		}}}
	}
	return out
}

func selectors(expressions ...string) (out []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return out
}

// devicesOf returns the DRA driver's names of the devices on a node, by resource. The number at the end is
// the first memory slice of a MIG device; whole GPUs are numbered in order.
func devicesOf(n *core.Node) map[core.ResourceName][]string {
	out, of := map[core.ResourceName][]string{}, gpuCount(n)
	for _, kind := range devices {
		amount := n.Status.Allocatable[kind]
		for i := range int(amount.Value()) {
			name := "gpu-" + strconv.Itoa(i%of)
			switch at := i / of; kind {
			case small:
				name += "-mig-1g5gb-19-" + strconv.Itoa(6-at)
			case large:
				name += "-mig-3g20gb-9-" + strconv.Itoa(4*at)
			}
			out[kind] = append(out[kind], name)
		}
	}
	return out
}

func gpuCount(n *core.Node) int {
	count, _ := strconv.Atoi(n.Labels["nvidia.com/gpu.count"])
	return count
}

// slicesOf returns the ResourceSlices of a node as the driver writes them
// (kubernetes-sigs/dra-driver-nvidia-gpu 9593204, cmd/gpu-kubelet-plugin: deviceinfo.go, and partitions.go
// with DynamicMIG, where GPUs are divided as they are claimed).
func slicesOf(n *core.Node, dynamic bool) []*resourcev1.ResourceSlice {
	if !dynamic {
		s := sliceOf(n, "", 1)
		for _, kind := range devices {
			for _, name := range devicesOf(n)[kind] {
				s.Spec.Devices = append(s.Spec.Devices, deviceOn(n, name))
			}
		}
		return []*resourcev1.ResourceSlice{s}
	}
	counters := sliceOf(n, "-counters", gpuCount(n)+1)
	all := []*resourcev1.ResourceSlice{counters}
	for i := range gpuCount(n) {
		name := "gpu-" + strconv.Itoa(i)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourcev1.CounterSet{Name: name + "-counter-set", Counters: memory(0, 8)})
		s := sliceOf(n, "-"+name, gpuCount(n)+1)
		add := func(name string, first, count int) {
			device := deviceOn(n, name)
			device.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: counters.Spec.SharedCounters[i].Name, Counters: memory(first, count)}}
			s.Spec.Devices = append(s.Spec.Devices, device)
		}
		add(name, 0, 8)
		for first := range 7 {
			add(name+"-mig-1g5gb-19-"+strconv.Itoa(first), first, 1)
		}
		add(name+"-mig-3g20gb-9-0", 0, 4)
		add(name+"-mig-3g20gb-9-4", 4, 4)
		all = append(all, s)
	}
	return all
}

// memory returns the counters for slices of a GPU's memory.
func memory(first, count int) map[string]resourcev1.Counter {
	out := map[string]resourcev1.Counter{}
	for i := range count {
		out["memory-slice-"+strconv.Itoa(first+i)] = resourcev1.Counter{Value: resource.MustParse("1")}
	}
	return out
}

// sliceOf returns one of a number of ResourceSlices of a node, without devices.
func sliceOf(n *core.Node, suffix string, of int) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: n.Name + suffix}, Spec: resourcev1.ResourceSliceSpec{
		Driver: byDRA, NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: int64(of)},
	}}
}

// deviceOn returns a device of a node by its name.
func deviceOn(n *core.Node, name string) resourcev1.Device {
	gpu, instance, divided := strings.Cut(name, "-mig-")
	out := resourcev1.Device{Name: name,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text("gpu"), "productName": text(productOf(n)), "uuid": text(n.Name + name), "architecture": text("Ampere")},
		Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("40Gi")}},
	}
	if i, err := strconv.Atoi(strings.TrimPrefix(gpu, "gpu-")); err == nil {
		out.Attributes[root] = text("pci" + strconv.Itoa(i/2))
	}
	if divided {
		profile := "3g.20gb"
		if strings.HasPrefix(instance, "1g") {
			profile = "1g.5gb"
		}
		out.Attributes["type"], out.Attributes["profile"], out.Attributes["parentUUID"] = text("mig"), text(profile), text(n.Name+gpu)
	}
	return out
}

func text(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }

// productOf is the driver's name for the product of a node's GPUs.
func productOf(n *core.Node) string {
	return strings.Replace(n.Labels["nvidia.com/gpu.product"], "-", " ", 1)
}

// claimOf returns a claim that a template creates for a pod.
func claimOf(p *core.Pod, name string) *resourcev1.ResourceClaim {
	made := p.Name + "-" + name
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, core.PodResourceClaim{Name: name, ResourceClaimTemplateName: &name})
	p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, core.ResourceClaim{Name: name})
	p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, core.PodResourceClaimStatus{Name: name, ResourceClaimName: &made})
	out := &resourcev1.ResourceClaim{ObjectMeta: meta.ObjectMeta{Namespace: p.Namespace, Name: made, UID: types.UID(p.Namespace + made), ResourceVersion: "1"}}
	out.OwnerReferences = []meta.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	return out
}

// claim makes a pod's claim for a number of devices of one kind.
func (d dice) claim(p *core.Pod, name core.ResourceName, count int64, product string) *resourcev1.ResourceClaim {
	out := claimOf(p, "gpus")
	if d.chance(20) { // a claim of its own, without a template
		p.Spec.ResourceClaims[0] = core.PodResourceClaim{Name: "gpus", ResourceClaimName: &out.Name}
		out.OwnerReferences, p.Status.ResourceClaimStatuses = nil, nil
	}
	var each []resourcev1.ExactDeviceRequest
	for left := count; left > 0; {
		one := resourcev1.ExactDeviceRequest{DeviceClassName: byDRA, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1 + d.Int64N(left)}
		if profile, divided := strings.CutPrefix(string(name), "nvidia.com/mig-"); divided {
			one.DeviceClassName, one.Selectors = migs, selectors("device.attributes['"+byDRA+"'].profile == '"+profile+"'")
		} else if d.chance(20) {
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

// allocate allocates the first of the devices to a pod's claim, and returns the others.
func allocate(claim *resourcev1.ResourceClaim, p *core.Pod, driver string, devices []string) []string {
	a := &resourcev1.AllocationResult{NodeSelector: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
		MatchFields: []core.NodeSelectorRequirement{{Key: meta.ObjectNameField, Operator: core.NodeSelectorOpIn, Values: []string{p.Spec.NodeName}}},
	}}}}
	given := func(request, device string) {
		a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: request, Driver: driver, Pool: p.Spec.NodeName, Device: device})
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
	return devices
}

// watched returns the objects that the autoscaler reads without Go types.
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

// claimed returns the claims of existing pods: claims of deleted pods are deleted too.
func (c *testCase) claimed() []*resourcev1.ResourceClaim {
	pods := append(slices.Clone(c.Pods), c.Pod)
	return slices.DeleteFunc(slices.Clone(c.ResourceClaims), func(claim *resourcev1.ResourceClaim) bool {
		return !slices.ContainsFunc(pods, func(p *core.Pod) bool {
			return p.Namespace == claim.Namespace && strings.HasPrefix(claim.Name, p.Name+"-")
		})
	})
}

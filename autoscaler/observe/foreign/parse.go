package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// Parse keeps the fields of an object that are read. It never fails: Err has the problem.
func Parse(k Kind, u *unstructured.Unstructured) *Object {
	o := &Object{Kind: k, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), CreationTimestamp: u.GetCreationTimestamp(),
		ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
		DeletionTimestamp: u.GetDeletionTimestamp(), Annotations: short(u.GetAnnotations(), "gpuscale.io/"),
	}}
	var err error
	kinds[k].parse(fields{of: u.Object, err: &err}, o)
	if err != nil {
		return &Object{Kind: k, ObjectMeta: o.ObjectMeta, Err: fmt.Errorf("%s %s: %w", k, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)}
	}
	return o
}

// groupOver are the phases in which all pods of a PodGroup have ended.
var groupOver = map[Kind][]string{VolcanoPodGroup: {"Completed"}, PluginsPodGroup: {"Finished", "Failed"}}

// parsePodGroup reads a PodGroup of Volcano or scheduler-plugins. Volcano starts a group once its minimum is reached,
// and that of its subgroups (1.15.1, pkg/scheduler/api/job_info.go).
func parsePodGroup(f fields, o *Object) {
	o.Group = &PodGroup{
		Min: f.count("spec.minMember", 0), Needs: f.resources("spec.minResources"), Queue: f.text("spec.queue"),
		Over: slices.Contains(groupOver[o.Kind], f.text("status.phase")),
	}
	if o.Kind == VolcanoPodGroup {
		o.Group.Queue = cmp.Or(o.Group.Queue, "default")
		o.Group.Near.Label = hyperNodeLabel(f, "spec.networkTopology.")
		subgroups := 0
		for _, policy := range f.list("spec.subGroupPolicy") {
			subgroups += policy.count("minSubGroups", 0) * policy.count("subGroupSize", 1)
		}
		if subgroups > o.Group.Min { // minResources are for minMember pods
			o.Group.Min, o.Group.Needs = min(subgroups, maxCount), nil
		}
	}
}

// parseKAIPodGroup reads a PodGroup of KAI.
func parseKAIPodGroup(f fields, o *Object) {
	under := map[string][]fields{} // subgroups by their parent
	for _, sub := range f.list("spec.subGroups") {
		under[sub.text("parent")] = append(under[sub.text("parent")], sub)
	}
	o.Group = &PodGroup{Queue: f.text("spec.queue"), Held: kaiHeld(f), Near: kaiNear(f, "spec."), Parts: map[string][]Part{}}
	o.Group.Min = kaiMin(f, "spec.", "", under, nil, o.Group.Parts)
}

// heldFor are KAI's reasons that no new node removes: those of queues (0.17.0, pkg/apis/scheduling/v2alpha2).
var heldFor = []string{"QueueDoesNotExist", "OverLimit", "NonPreemptibleOverQuota"}

// kaiHeld is why KAI starts no pod of a PodGroup, empty for nothing. The last condition has what a scheduler found
// last. It does not count while some of the group's pods run, since no new one is written then.
func kaiHeld(f fields) string {
	for _, q := range f.resources("status.resourcesStatus.allocated") {
		if !q.IsZero() {
			return ""
		}
	}
	held := ""
	for _, found := range f.list("status.schedulingConditions") {
		held = ""
		for _, r := range found.list("reasons") {
			if reason := r.text("reason"); slices.Contains(heldFor, reason) {
				held = cmp.Or(held, reason)
			}
		}
	}
	return held
}

// maxWithin bounds the subgroups with topology constraints that a subgroup is nested in: topologies have fewer levels.
const maxWithin = 8

// kaiNear is what a topology constraint requires. KAI ignores one without a topology.
func kaiNear(f fields, at string) Near {
	level, topology := f.text(at+"topologyConstraint.requiredTopologyLevel"), f.text(at+"topologyConstraint.topology")
	if level == "" || topology == "" {
		return Near{}
	}
	return Near{level, topology}
}

// kaiMin is the smallest number of pods with which a PodGroup of KAI, or one of its subgroups, starts. That is its own
// minimum, or the sum over its smallest subgroups: as many of them as it states, else all (0.17.0,
// pkg/scheduler/api/podgroup_info). It collects the topology constraints of the subgroups in parts; within are those of
// the groups above.
func kaiMin(f fields, at, name string, under map[string][]fields, within []Part, parts map[string][]Part) int {
	if len(within) > 0 {
		parts[name] = within
	}
	below := under[name]
	if len(below) == 0 {
		return f.count(at+"minMember", 0)
	}
	delete(under, name) // a cycle ends here
	var least []int
	for _, sub := range below {
		own := within
		if near := kaiNear(sub, ""); near != (Near{}) && len(within) < maxWithin {
			own = append(slices.Clip(within), Part{sub.text("name"), near})
		}
		least = append(least, kaiMin(sub, "", sub.text("name"), under, own, parts))
	}
	slices.Sort(least)
	sum := 0
	for _, n := range least[:min(f.count(at+"minSubGroup", len(least)), len(least))] {
		sum += n
	}
	return min(sum, maxCount)
}

// parseKAITopology reads the aliases of a Topology's levels.
func parseKAITopology(f fields, o *Object) {
	o.Levels = map[string]string{}
	for _, level := range f.list("spec.levels") {
		if alias := level.text("alias"); alias != "" {
			o.Levels[alias] = level.text("nodeLabel")
		}
	}
}

func parseBuiltInPodGroup(f fields, o *Object) {
	o.Group = &PodGroup{Min: f.count("spec.schedulingPolicy.gang.minCount", 0), Claims: map[string]string{}}
	for _, claim := range f.list("spec.resourceClaims") {
		o.Group.Claims[claim.text("name")] = claim.text("resourceClaimTemplateName")
	}
	for _, topology := range f.list("spec.schedulingConstraints.topology") { // one at most, as of 1.37
		o.Group.Near.Label = cmp.Or(o.Group.Near.Label, topology.text("key"))
	}
}

// parseKueueQueue reads a ClusterQueue or a Cohort. Their parent fields have different names, and
// changed with v1beta2. Their quotas are summed over all flavors: the flavor of a demand is not known yet.
func parseKueueQueue(f fields, o *Object) {
	o.Queue = &Queue{Parent: cmp.Or(f.text("spec.cohortName"), f.text("spec.cohort"), f.text("spec.parentName"), f.text("spec.parent"))}
	for _, group := range f.list("spec.resourceGroups") {
		for _, flavor := range group.list("flavors") {
			for _, r := range flavor.list("resources") {
				o.Queue.Quotas = append(o.Queue.Quotas, Quota{
					Resource: r.text("name"), Guaranteed: cmp.Or(r.amount("nominalQuota"), ptr.To(0.0)), Borrow: r.amount("borrowingLimit"), Lend: r.amount("lendingLimit"),
				})
			}
		}
	}
}

func parseFlavor(f fields, o *Object) {
	o.Flavor = &Flavor{NodeLabels: f.names("spec.nodeLabels"), Tolerations: into[[]corev1.Toleration](f, "spec.tolerations")}
}

// parseCheck reads an AdmissionCheck. That of MultiKueue sends Workloads to other clusters. A Workload states to which
// ones only after one of them is connected (ff69552, pkg/controller/admissionchecks/multikueue).
func parseCheck(f fields, o *Object) {
	o.Remote = f.text("spec.controllerName") == "kueue.x-k8s.io/multikueue"
}

// parseDRASlice reads a ResourceSlice of one node. MIG devices that the driver creates when they are claimed consume
// counters of their GPU (kubernetes-sigs/dra-driver-nvidia-gpu 9593204, cmd/gpu-kubelet-plugin/partitions.go). The
// names of MIG devices end in their first memory slice; the driver parses them too (mig.go).
func parseDRASlice(f fields, o *Object) {
	spec := into[resourcev1.ResourceSliceSpec](f, "spec")
	packed, err := spec.Marshal()
	if err != nil {
		f.fail("spec", err)
		return
	}
	o.Devices = &Devices{
		DeviceName: DeviceName{Driver: spec.Driver, Pool: spec.Pool.Name}, Node: ptr.Deref(spec.NodeName, ""),
		Generation: spec.Pool.Generation, Slices: spec.Pool.ResourceSliceCount, Packed: packed,
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		attribute := func(name resourcev1.QualifiedName) string { return ptr.Deref(d.Attributes[name].StringValue, "") }
		one := Device{Name: d.Name, Type: attribute("type"), Profile: attribute("profile"), Parts: parts(d)}
		one.Tainted = slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Effect != resourcev1.DeviceTaintEffectNone })
		switch {
		case one.Profile != "":
			one.GPU, one.Claimed = attribute("parentUUID"), len(d.ConsumesCounters) > 0
			if start, err := strconv.Atoi(one.Name[strings.LastIndexByte(one.Name, '-')+1:]); err == nil {
				one.Start = start
			}
		case one.Type == "gpu":
			one.GPU = attribute("uuid")
		}
		o.Devices.Product = cmp.Or(o.Devices.Product, attribute("productName"))
		o.Devices.Each = append(o.Devices.Each, one)
	}
}

const mostParts = 1000

// parts counts the requests without a capacity that a device serves at once. Of each capacity, such a request consumes the
// policy's default, else all (dynamic-resource-allocation 0.37.1, structured/internal: calculateConsumedCapacity). NVIDIA's
// driver (9593204, consumable_shares.go) publishes "shares" of which 1 is the default, or memory of which 0 or all is.
func parts(d *resourcev1.Device) int {
	if !ptr.Deref(d.AllowMultipleAllocations, false) {
		return 1
	}
	n := float64(mostParts)
	for _, of := range d.Capacity {
		each := of.Value
		if of.RequestPolicy != nil && of.RequestPolicy.Default != nil {
			each = *of.RequestPolicy.Default
		}
		if each.Sign() > 0 {
			n = min(n, of.Value.AsApproximateFloat64()/each.AsApproximateFloat64())
		}
	}
	return max(int(n), 1)
}

// parseDRATaint reads a DeviceTaintRule. Without a selector it selects no device.
func parseDRATaint(f fields, o *Object) {
	spec := into[resourcev1.DeviceTaintRuleSpec](f, "spec")
	if s := spec.DeviceSelector; s != nil && spec.Taint.Effect != resourcev1.DeviceTaintEffectNone {
		o.Taint = &DeviceTaint{DeviceName{ptr.Deref(s.Driver, ""), ptr.Deref(s.Pool, ""), ptr.Deref(s.Device, "")}, spec.Taint}
	}
}

func parseRuntimeClass(f fields, o *Object) {
	o.Flavor = &Flavor{
		NodeLabels: f.names("scheduling.nodeSelector"), Tolerations: into[[]corev1.Toleration](f, "scheduling.tolerations"), Overhead: f.resources("overhead.podFixed"),
	}
}

// parseVolcanoQueue reads a queue. Its deserved amount is its guarantee, since Volcano reclaims for
// it; a queue that only has a capability is guaranteed up to there. Nothing is allocated to a queue that is not open
// (ed72c7c, pkg/scheduler/plugins/proportion).
func parseVolcanoQueue(f fields, o *Object) {
	o.Queue = &Queue{Parent: f.text("spec.parent"), Whole: true}
	if state := f.text("status.state"); state == "Closed" || state == "Closing" {
		o.Queue.Closed = "Queue" + state
	}
	capability, deserved, guarantee := f.resources("spec.capability"), f.resources("spec.deserved"), f.resources("spec.guarantee.resource")
	all := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{capability, guarantee, deserved} {
		maps.Copy(all, list)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := Quota{Resource: string(name), Limit: listed(capability, name), Guaranteed: listed(all, name)}
		if f.isNot("spec.reclaimable") {
			q.Lend = ptr.To(0.0)
		}
		o.Queue.Quotas = append(o.Queue.Quotas, q)
	}
}

func listed(list corev1.ResourceList, name corev1.ResourceName) *float64 {
	if q, ok := list[name]; ok {
		return ptr.To(q.AsApproximateFloat64())
	}
	return nil
}

// kaiGPU is the resource that a KAI queue's gpu numbers count: whole GPUs.
const kaiGPU = "nvidia.com/gpu"

// parseKAIQueue reads a queue of KAI. A number that is not set is 0, and -1 is unbounded. The limit also applies to
// what is within the quota (0.17.0, pkg/scheduler/plugins/proportion).
func parseKAIQueue(f fields, o *Object) {
	amount := func(path string) float64 {
		n := ptr.Deref(f.number("spec.resources.gpu."+path), 0)
		if n < 0 {
			n = math.Inf(1)
		}
		return n
	}
	quota, limit := amount("quota"), amount("limit")
	quota = min(quota, limit)
	o.Queue = &Queue{Parent: f.text("spec.parentQueue"), Whole: true, Quotas: []Quota{{Resource: kaiGPU, Guaranteed: &quota, Limit: &limit}}}
}

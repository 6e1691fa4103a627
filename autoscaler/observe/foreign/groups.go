package foreign

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// groupOver are the phases in which all pods of a PodGroup have ended.
var groupOver = map[Kind][]string{VolcanoPodGroup: {"Completed"}, PluginsPodGroup: {"Finished", "Failed"}}

// parsePodGroup reads a PodGroup of Volcano, scheduler-plugins or KAI.
func parsePodGroup(f fields, o *Object) {
	o.Group = &PodGroup{
		Min: f.count("spec.minMember", 0), Needs: f.resources("spec.minResources"), Queue: f.text("spec.queue"),
		Over: slices.Contains(groupOver[o.Kind], f.text("status.phase")), Near: f.text("spec.topologyConstraint.requiredTopologyLevel"),
	}
	if o.Kind == VolcanoPodGroup {
		o.Group.Queue = cmp.Or(o.Group.Queue, "default")
	}
}

func parseBuiltInPodGroup(f fields, o *Object) {
	o.Group = &PodGroup{Min: f.count("spec.schedulingPolicy.gang.minCount", 0)}
	for _, topology := range f.list("spec.schedulingConstraints.topology") { // one at most, as of 1.37
		o.Group.Near = cmp.Or(o.Group.Near, topology.text("key"))
	}
}

// parseKueueQueue reads a ClusterQueue or a Cohort. Their parent fields have different names, and
// changed with v1beta2. Their quotas are of all flavors: the flavor of a demand is not known yet.
func parseKueueQueue(f fields, o *Object) {
	o.Queue = &Queue{Parent: cmp.Or(f.text("spec.cohortName"), f.text("spec.cohort"), f.text("spec.parentName"), f.text("spec.parent"))}
	for _, group := range f.list("spec.resourceGroups") {
		for _, flavor := range group.list("flavors") {
			for _, r := range flavor.list("resources") {
				o.Queue.Quotas = append(o.Queue.Quotas, Quota{
					Resource: r.text("name"), Guaranteed: cmp.Or(r.amount("nominalQuota"), &Amount{}), Borrow: r.amount("borrowingLimit"), Lend: r.amount("lendingLimit"),
				})
			}
		}
	}
}

func parseLocalQueue(f fields, o *Object) {
	o.Queue = &Queue{ClusterQueue: f.text("spec.clusterQueue")}
}

func parseFlavor(f fields, o *Object) {
	o.Flavor = &Flavor{NodeLabels: f.names("spec.nodeLabels"), Tolerations: into[[]corev1.Toleration](f, "spec.tolerations")}
}

// parseVolcanoQueue reads a queue. Its deserved amount is its guarantee, since Volcano reclaims for
// it; a queue that only has a capability is guaranteed up to there.
func parseVolcanoQueue(f fields, o *Object) {
	o.Queue = &Queue{Parent: f.text("spec.parent"), Whole: true}
	capability, deserved, guarantee := f.resources("spec.capability"), f.resources("spec.deserved"), f.resources("spec.guarantee.resource")
	all := maps.Clone(capability)
	if all == nil {
		all = corev1.ResourceList{}
	}
	maps.Copy(all, guarantee)
	maps.Copy(all, deserved)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := Quota{Resource: string(name), Limit: listed(capability, name), Guaranteed: listed(all, name)}
		if f.isNot("spec.reclaimable") {
			q.Lend = &Amount{}
		}
		o.Queue.Quotas = append(o.Queue.Quotas, q)
	}
}

func listed(list corev1.ResourceList, name corev1.ResourceName) *Amount {
	q, ok := list[name]
	if !ok {
		return nil
	}
	return &Amount{Number: q.AsApproximateFloat64()}
}

// kaiGPU is the resource that a KAI queue's gpu numbers count: whole GPUs.
const kaiGPU = "nvidia.com/gpu"

func parseKAIQueue(f fields, o *Object) {
	o.Queue = &Queue{Parent: f.text("spec.parentQueue"), Whole: true}
	if f.value("spec.resources") == nil {
		return
	}
	amount := func(path string) *Amount { // -1 is unbounded
		n := f.number(path)
		switch {
		case n == nil:
			return nil
		case *n < 0:
			return &Amount{Unlimited: true}
		}
		return &Amount{Number: *n}
	}
	limit := cmp.Or(amount("spec.resources.gpu.limit"), &Amount{}) // no borrowing beyond the quota
	o.Queue.Quotas = []Quota{{Resource: kaiGPU, Guaranteed: amount("spec.resources.gpu.quota"), Limit: limit}}
}

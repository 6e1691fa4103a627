package gangs

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// Labels and annotations by which Kueue's objects refer to each other.
const (
	kueueWorkload = "kueue.x-k8s.io/workload"            // annotation
	kueueSlice    = "kueue.x-k8s.io/workload-slice-name" // annotation, of an elastic job
	kueuePodGroup = "kueue.x-k8s.io/pod-group-name"
	kueuePrebuilt = "kueue.x-k8s.io/prebuilt-workload-name"
	kueuePodSet   = "kueue.x-k8s.io/podset"    // label of a pod that it has admitted
	kueueRoleHash = "kueue.x-k8s.io/role-hash" // annotation of a group's pods: the pod set
	kueueJobUID   = "kueue.x-k8s.io/job-uid"   // label of a Workload
)

// kueueGates are the scheduling gates that Kueue removes from the pods of a Workload: once it is admitted, once
// each has its place, and once an elastic job's new slice is admitted (ff69552, apis/kueue/v1beta2).
var kueueGates = []string{"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology", "kueue.x-k8s.io/elastic-job"}

// nested are kinds that Kueue queues and whose pods an intermediate object creates. Without Kueue's annotation the pods
// cannot be matched to their Workload.
var nested = map[string]bool{"RayJob": true, "RayService": true, "AppWrapper": true, "SparkApplication": true}

// kueue finds the Workloads that stand for other objects.
type kueue struct {
	objects foreign.Objects
	queued  map[owner]*foreign.Object // Workloads, by the object that they queue
}

func newKueue(objects foreign.Objects) kueue {
	k := kueue{objects, map[owner]*foreign.Object{}}
	for _, o := range objects[foreign.KueueWorkload] {
		if o.Maker == nil {
			continue
		}
		if uid := types.UID(o.Labels[kueueJobUID]); uid != "" {
			k.queue(uid, o)
		}
		for i := range o.OwnerReferences {
			k.queue(o.OwnerReferences[i].UID, o)
		}
	}
	return k
}

// queue records the object that a Workload queues. An old Workload may be left over: the one that
// is not over wins, then the newest.
func (k kueue) queue(uid types.UID, o *foreign.Object) {
	of := owner{o.Namespace, uid}
	had := k.queued[of]
	if had == nil || had.Maker.Over && !o.Maker.Over ||
		had.Maker.Over == o.Maker.Over && cmp.Or(had.CreationTimestamp.Compare(o.CreationTimestamp.Time), strings.Compare(o.Name, had.Name)) < 0 {
		k.queued[of] = o
	}
}

// workloadOf returns the Kueue Workload that queues a pod, nil for none.
func (k kueue) workloadOf(p *corev1.Pod) *foreign.Object {
	var over *foreign.Object // an elastic job's pods may name a replaced slice
	for _, key := range []string{kueueSlice, kueueWorkload, kueuePrebuilt, kueuePodGroup} {
		// Newer Kueue uses annotations for names that are too long for a label.
		for _, name := range []string{p.Annotations[key], p.Labels[key]} {
			w := k.objects.Maker(foreign.KueueWorkload.Of(p.Namespace, name))
			switch {
			case name == "" || w == nil:
			case w.Maker.Over:
				over = w
			default:
				return w
			}
		}
	}
	if over != nil {
		for i := range over.OwnerReferences {
			if w := k.queued[owner{p.Namespace, over.OwnerReferences[i].UID}]; w != nil {
				return w
			}
		}
		return over
	}
	// A JobSet's pods are owned by its Jobs.
	if o := k.objects.Maker(foreign.JobSet.Of(p.Namespace, p.Labels[jobSetName])); o != nil {
		if w := k.workloadFor(o); w != nil {
			return w
		}
	}
	return k.workloadFor(p)
}

// workloadFor returns the Kueue Workload that queues an object or its owner, such as the TrainJob that owns a JobSet;
// nil for none.
func (k kueue) workloadFor(o metav1.Object) *foreign.Object {
	if w := k.queued[owner{o.GetNamespace(), o.GetUID()}]; w != nil && o.GetUID() != "" {
		return w
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.UID != "" {
		return k.queued[owner{o.GetNamespace(), ref.UID}]
	}
	return nil
}

// inactive reports whether a maker creates no pods here.
func (k kueue) inactive(o *foreign.Object) bool {
	return o.Maker.Inactive || slices.ContainsFunc(o.Maker.Checks, func(name string) bool {
		check := k.objects.Get(foreign.KueueCheck.Of("", name))
		return check != nil && check.Remote
	})
}

// gated handles Kueue's scheduling gates. They stay closed while an admission check is pending,
// possibly for a node for this pod. Once the quota is reserved, the gated pod is demand, with what Kueue will add to it.
func (j *joiner) gated(p *Pod, at place) {
	if p.Plan.Node != "" || len(p.Spec.SchedulingGates) == 0 || at.maker.Kind != foreign.KueueWorkload {
		return
	}
	w := j.in.Objects.Maker(at.maker)
	for _, gate := range p.Spec.SchedulingGates {
		if !slices.Contains(kueueGates, gate.Name) || j.kueue.inactive(w) {
			return
		}
	}
	p.Plan.Unschedulable = true
	i := slices.IndexFunc(w.Maker.Roles, func(r foreign.Role) bool { return r.Name == at.role })
	if i < 0 { // there are several pod sets, and the pod does not state its own
		return
	}
	role := &w.Maker.Roles[i]
	adds := j.kueue.admitted(role, w.Maker).Spec
	if len(adds.NodeSelector) > 0 {
		selector := maps.Clone(adds.NodeSelector)
		maps.Copy(selector, p.Plan.NodeSelector)
		p.Plan.NodeSelector = selector
	}
	for _, t := range adds.Tolerations {
		toleration := plan.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)}
		if !slices.Contains(p.Plan.Tolerations, toleration) {
			p.Plan.Tolerations = append(slices.Clip(p.Plan.Tolerations), toleration)
		}
	}
	j.near(p.Plan, role.Near, groupOfRole(w, role))
}

// startsAgain reports whether a place is in a Workload that is not admitted yet. Its ended pods ran before it was
// evicted, and its quota is for all pods that it still creates.
func (k kueue) startsAgain(at place) bool {
	return at.maker.Kind == foreign.KueueWorkload && !k.objects.Maker(at.maker).Maker.Started
}

// admitted returns a role's template with its maker's priority and with the labels and tolerations
// that Kueue will add for the assigned flavors. Without those, the planner would add a node of a
// pool that the pods cannot use.
func (k kueue) admitted(r *foreign.Role, m *foreign.Maker) *corev1.PodTemplateSpec {
	out := r.Template
	if m.PriorityClass != "" && out.Spec.PriorityClassName == "" {
		out.Spec.PriorityClassName, out.Spec.Priority = m.PriorityClass, m.Priority
	}
	for _, name := range r.Flavors {
		if o := k.objects.Get(foreign.KueueFlavor.Of("", name)); o != nil && o.Flavor != nil {
			o.Flavor.AddTo(&out.Spec)
		}
	}
	return &out
}

// unseen reports whether the pods of a Workload may exist without being known as its own: the
// Workload is admitted, and no pod refers to it.
func (j *joiner) unseen(o *foreign.Object) bool {
	return o.Kind == foreign.KueueWorkload && o.Maker.Started && !j.seen[o.Key()] &&
		slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return nested[r.Kind] })
}

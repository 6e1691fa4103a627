package gangs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// Pod is a pod that exists, or is still to be created.
type Pod struct {
	*corev1.Pod // one still to be created is as the API server would create it, without a name
	// Plan is the planner's view of it, nil if it requests no GPU.
	Plan *plan.Pod
	// Workload (Kueue) and PodGroup of the pod, by name; set by Join.
	Workload, PodGroup string
}

// Input is all input of Join.
type Input struct {
	// Pods of the whole cluster that exist, including those that have ended.
	Pods    []Pod
	Objects foreign.Objects
	HPAs    []autoscalingv2.HorizontalPodAutoscaler
	// Convert returns a pod created from this template in a namespace, defaults applied, and the planner's view of it.
	Convert func(namespace string, t *corev1.PodTemplateSpec) (plan.Pod, *corev1.Pod)
}

// PlainAnnotation with "false" on a JobSet or LeaderWorkerSet states that its pods are useful one
// by one.
const PlainAnnotation = "gpuscale.io/gang"

// consumesAnnotation on a pod names the ProvisioningRequest whose capacity it uses.
const consumesAnnotation = "autoscaling.x-k8s.io/consume-provisioning-request"

// maxUnmade bounds the pods of a namespace that count as demand before they exist, and the sets of
// such pods that are looked at.
const maxUnmade = 20_000

// Joined is what Join finds.
type Joined struct {
	// Unmade are the pods still to be created. LeftOut counts, by namespace, those beyond maxUnmade, which are not in
	// Unmade.
	Unmade  []Pod
	LeftOut map[string]int // pods, or sets of them
	// Consumers are the pods that use the capacity of a ProvisioningRequest, by the request. These pods are then the
	// demand, not the request. If only pods that do not exist yet will use a request, its entry has no pods. All names
	// are "namespace/name".
	Consumers map[string]map[string]bool
}

// Join records each pod's gang in its plan, and returns what is still to be created.
func Join(in Input) Joined {
	j := newJoiner(in)
	places := j.places()
	for i := range in.Pods {
		j.add(&in.Pods[i], places[i])
	}
	j.makeMissing()
	j.fillGroups()
	j.scaled()
	j.finish()
	return j.Joined
}

// Labels and annotations by which pods refer to their owners.
const (
	volcanoGroup     = "scheduling.k8s.io/group-name" // annotation, of Volcano and kube-batch
	volcanoGroupToo  = "scheduling.volcano.sh/group-name"
	pluginsGroup     = "scheduling.x-k8s.io/pod-group" // label
	kaiGroup         = "pod-group-name"                // annotation
	kaiSubGroup      = "kai.scheduler/subgroup-name"   // label
	kaiNodePool      = "kai.scheduler/node-pool"       // label, of nodes and PodGroups
	volcanoJob       = "volcano.sh/job-name"
	volcanoTask      = "volcano.sh/task-spec"
	jobSetName       = "jobset.sigs.k8s.io/jobset-name"
	jobSetRole       = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetIndex      = "jobset.sigs.k8s.io/job-index"
	trainingJob      = "training.kubeflow.org/job-name"
	trainingRole     = "training.kubeflow.org/replica-type"
	mpiRole          = "training.kubeflow.org/job-role"
	lwsName          = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup         = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorker        = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsGroupKey      = "leaderworkerset.sigs.k8s.io/group-key"
	lwsRoleOfLeader  = "leader"
	lwsRoleOfWorkers = "worker"
)

// groupOf returns the PodGroup that a pod names; an empty name for none.
func groupOf(p *corev1.Pod) foreign.Key {
	of := func(k foreign.Kind, name string) foreign.Key { return k.Of(p.Namespace, name) }
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return of(foreign.BuiltInPodGroup, *g.PodGroupName)
	}
	for _, key := range []string{volcanoGroup, volcanoGroupToo} {
		if name := p.Annotations[key]; name != "" {
			return of(foreign.VolcanoPodGroup, name)
		}
	}
	if name := p.Labels[pluginsGroup]; name != "" {
		return of(foreign.PluginsPodGroup, name)
	}
	return of(foreign.KAIPodGroup, p.Annotations[kaiGroup])
}

// place is the role that a pod was created for.
type place struct {
	maker foreign.Key
	set   int
	role  string
}

// placeOf returns the place of a pod; an empty name if its maker is unknown. Kueue's Workload goes
// first: it stands for the object that it queues.
func (j *joiner) placeOf(p *corev1.Pod) place {
	if w := j.kueue.workloadOf(p); w != nil {
		return j.inRole(w.Key(), 0, cmp.Or(p.Labels[kueuePodSet], p.Annotations[kueueRoleHash], p.Labels[jobSetRole]))
	}
	at := labelled(p)
	if at.maker.Name == "" {
		return place{}
	}
	if i := p.Labels[jobSetIndex]; i != "" && at.maker.Kind == foreign.JobSet { // where each of its Jobs is a role
		if one := j.inRole(at.maker, at.set, at.role+"-"+i); one.role != "" {
			return one
		}
	}
	return j.inRole(at.maker, at.set, at.role)
}

// labelled returns the place that a pod's labels name, even if its maker does not exist; an empty name for none.
func labelled(p *corev1.Pod) place {
	label := func(key string) string { return cmp.Or(p.Labels[key], p.Annotations[key]) }
	if name := label(volcanoJob); name != "" {
		return place{foreign.VolcanoJob.Of(p.Namespace, name), 0, label(volcanoTask)}
	}
	if name := p.Labels[lwsName]; name != "" {
		set, err := strconv.Atoi(p.Labels[lwsGroup])
		if err != nil || set < 0 {
			return place{}
		}
		role := lwsRoleOfWorkers
		if p.Labels[lwsWorker] == "0" {
			role = lwsRoleOfLeader
		}
		return place{foreign.LeaderWorkerSet.Of(p.Namespace, name), set, role}
	}
	if name := p.Labels[jobSetName]; name != "" {
		return place{foreign.JobSet.Of(p.Namespace, name), 0, p.Labels[jobSetRole]}
	}
	if name := p.Labels[trainingJob]; name != "" {
		of := foreign.MPIJob // a Job creates the launcher of one
		if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
			if k := foreign.Kind(strings.ToLower(ref.Kind) + "s.kubeflow.org"); k.Owner() == ref.Kind {
				of = k
			}
		}
		return place{of.Of(p.Namespace, name), 0, strings.ToLower(cmp.Or(p.Labels[trainingRole], p.Labels[mpiRole]))}
	}
	return place{}
}

// orphan reports whether a pod's maker no longer exists. Such a pod is about to be deleted: while it lasts, the rest of
// a gang must not look like pods that are useful one by one.
func (j *joiner) orphan(p *corev1.Pod) bool {
	of := labelled(p).maker
	_, listed := j.in.Objects[of.Kind]
	return of.Name != "" && listed && j.in.Objects.Get(of) == nil
}

// inRole returns a place of a known maker. A pod that names no existing role has none, unless there
// is only one.
func (j *joiner) inRole(of foreign.Key, set int, role string) place {
	o := j.in.Objects.Maker(of)
	if o == nil {
		return place{}
	}
	if roles := o.Maker.Roles; len(roles) == 1 {
		return place{of, set, roles[0].Name}
	}
	if !slices.ContainsFunc(o.Maker.Roles, func(r foreign.Role) bool { return r.Name == role }) {
		role = ""
	}
	return place{of, set, role}
}

package gangs

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// Pod is a pod that exists.
type Pod struct {
	*corev1.Pod
	// Plan is the planner's view of it, nil if it requests no GPU.
	Plan *plan.Pod
	// Workload (Kueue) and PodGroup of the pod, by name; set by Join.
	Workload, PodGroup string
}

// Unmade is a pod that is still to be created.
type Unmade struct {
	plan.Pod
	Template *corev1.PodTemplateSpec
	// Workload (Kueue) and PodGroup of the pod, by name.
	Workload, PodGroup string
}

// Input is all input of Join.
type Input struct {
	// Pods of the whole cluster, including those that have ended.
	Pods    []Pod
	Objects foreign.Objects
	HPAs    []autoscalingv2.HorizontalPodAutoscaler
	// Convert returns the planner's view of a pod created from this template in a namespace:
	// defaults applied, demand read.
	Convert func(namespace string, t *corev1.PodTemplateSpec) plan.Pod
	// LeftOut, which may be nil, is called with the pods of a namespace that are left out since it has
	// too many.
	LeftOut func(namespace string, pods int)
}

// PlainAnnotation with "false" on a JobSet or LeaderWorkerSet states that its pods are useful one
// by one.
const PlainAnnotation = "gpuscale.io/gang"

// ConsumesAnnotation on a pod names the ProvisioningRequest whose capacity it uses.
const ConsumesAnnotation = "autoscaling.x-k8s.io/consume-provisioning-request"

// maxUnmade bounds the pods of a namespace that count as demand before they exist, and the sets of
// such pods that are looked at.
const maxUnmade = 20_000

// Join records each pod's gang in its plan, and returns the pods that are still to be created.
func Join(in Input) []Unmade {
	j := newJoiner(in)
	places := j.places()
	for i := range in.Pods {
		j.add(&in.Pods[i], places[i])
	}
	j.makeMissing()
	j.fillGroups()
	j.scaled()
	j.finish()
	return j.unmade
}

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
	// Plan is what the planner will see of it, nil for nothing: it wants no GPU.
	Plan *plan.Pod
	// Workload of Kueue and PodGroup it is of, by name: Join writes them.
	Workload, PodGroup string
}

// Unmade is a pod that is still to be made.
type Unmade struct {
	plan.Pod
	Template *corev1.PodTemplateSpec
	// Workload of Kueue and PodGroup it will be of, by name.
	Workload, PodGroup string
}

// Input is everything that is looked at.
type Input struct {
	// Pods of the whole cluster, those that have ended too.
	Pods    []Pod
	Objects foreign.Objects
	HPAs    []autoscalingv2.HorizontalPodAutoscaler
	// Convert returns what the planner is to see of a pod that is made from this
	// template in a namespace: defaults applied, demand read.
	Convert func(namespace string, t *corev1.PodTemplateSpec) plan.Pod
}

// PlainAnnotation on a JobSet or LeaderWorkerSet with "false" says that its pods
// are of use one by one.
const PlainAnnotation = "gpuscale.io/gang"

// maxUnmade bounds the pods that are taken for demand before they exist, in all.
const maxUnmade = 20_000

// Join writes into the pods' plans which gang each is of, and returns the pods that
// are still to be made.
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

package doctor

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Types of objects that checks read.
type (
	deployment = appsv1.Deployment
	daemonSet  = appsv1.DaemonSet
	apiService = apiregistrationv1.APIService
	pool       = v1alpha1.GPUNodePool
	gpuQuota   = v1alpha1.GPUQuota
	hpa        = autoscalingv2.HorizontalPodAutoscaler
	budget     = policyv1.PodDisruptionBudget
	sample     = prom.Sample
)

// Facts are what was read of a cluster and its Prometheus at one time. Data of a [Source] in Missing may be
// partial or empty.
type Facts struct {
	// Now is the API server's clock at the first request, Local this machine's clock at the same moment.
	Now, Local time.Time
	// Asked is Local's clock when Prometheus was asked for its time. Took is the duration of all checks together.
	Asked time.Time
	Took  time.Duration
	// Namespace is where to look for gpuscale; empty for all namespaces.
	Namespace string
	// Kubectl has the flags that kubectl needs to reach the same cluster.
	Kubectl commands
	// Missing has the reason for each source that was not read, or not completely.
	Missing map[*Source]string

	objects map[*Source]any // a []*T for each kind[T]
	// Answers are Prometheus' answers.
	Answers map[*Source]prom.Vector
}

func newFacts() *Facts {
	return &Facts{Missing: map[*Source]string{}, objects: map[*Source]any{}, Answers: map[*Source]prom.Vector{}}
}

// ScaledObject has the fields of KEDA's object that checks read.
type ScaledObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
	} `json:"spec"`
}

// Workload has the fields of a ReplicaSet, StatefulSet or Job that checks read.
type Workload struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas    *int32                 `json:"replicas"`
		Parallelism *int32                 `json:"parallelism"`
		Completions *int32                 `json:"completions"`
		Suspend     bool                   `json:"suspend"`
		Template    corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	Status struct {
		Replicas       int32              `json:"replicas"`
		Active         int32              `json:"active"`
		Succeeded      int32              `json:"succeeded"`
		CompletionTime *metav1.Time       `json:"completionTime"`
		Conditions     []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// neighbours are images of other projects' programs that checks read.
var neighbours = []string{"dcgm-exporter", "cluster-autoscaler", "k8s-mig-manager", "k8s-device-plugin"}

// keepPod reports whether checks read a pod: our programs, their neighbours, and pods that request devices
// and have not ended. Other pods are dropped after each page.
func keepPod(p *corev1.Pod) bool {
	if kube.IsOver(p) {
		return false
	}
	return isOurs(p.Labels) || runs(p.Spec, neighbours...) || slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		for name := range c.Resources.Limits {
			if strings.HasPrefix(string(name), "nvidia.com/") {
				return true
			}
		}
		return strings.HasPrefix(image(c.Image), partOf+"-")
	})
}

// runs reports whether a pod runs one of these images as the program of that name. NVIDIA's feature discovery
// and MPS daemon run the device plugin's image too, and do not count.
func runs(spec corev1.PodSpec, images ...string) bool {
	return !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return strings.HasPrefix(c.Name, "gpu-feature-discovery") || strings.HasPrefix(c.Name, "mps-control-daemon")
	}) && slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(images, func(known string) bool { return strings.Contains(image(c.Image), known) })
	})
}

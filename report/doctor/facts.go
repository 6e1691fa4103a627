package doctor

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Facts are what was read of a cluster and its Prometheus at one time. A field whose
// Source is in Missing may be partial or empty.
type Facts struct {
	// Now is the API server's clock when it was asked first, Local the clock of
	// this machine then.
	Now, Local time.Time
	// Asked is Local at the query of Prometheus' clock; Took is the duration of all
	// checks together.
	Asked time.Time
	Took  time.Duration
	// Namespace to look for gpuscale in; empty for any.
	Namespace string
	// Kubectl has the flags that commands need to reach the same cluster.
	Kubectl []string
	// Missing is why a source was not read, or not in full.
	Missing map[Source]string
	// Absent are APIs that do not exist.
	Absent map[Source]bool
	// Calls made to Kubernetes and queries to Prometheus.
	Calls, Queries int

	Nodes               []*corev1.Node
	Pods                []*corev1.Pod // those for which KeepPod is true
	Deployments         []*appsv1.Deployment
	DaemonSets          []*appsv1.DaemonSet
	APIServices         []*apiregistrationv1.APIService
	Services            []*corev1.Service                           // that our APIServices name, and webhooks over what we write
	EndpointSlices      []*discoveryv1.EndpointSlice                // of those
	ConfigMaps          []*corev1.ConfigMap                         // configuration of our programs
	CRDs                []*apiextensionsv1.CustomResourceDefinition // ours
	Pools               []*v1alpha1.GPUNodePool
	GPUQuotas           []*v1alpha1.GPUQuota
	HPAs                []*autoscalingv2.HorizontalPodAutoscaler
	ScaledObjects       []*ScaledObject
	ResourceQuotas      []*corev1.ResourceQuota
	Leases              []*coordinationv1.Lease // in the autoscaler's namespaces
	NodeLeases          []*coordinationv1.Lease
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	ClusterRoles        []*rbacv1.ClusterRole
	RoleBindings        []*rbacv1.RoleBinding
	ResourceSlices      []*ResourceSlice
	Budgets             []*policyv1.PodDisruptionBudget
	ValidatingWebhooks  []*admissionv1.ValidatingWebhookConfiguration
	MutatingWebhooks    []*admissionv1.MutatingWebhookConfiguration
	CustomMetrics       []string // names of metrics that are served
	ExternalMetrics     []string
	Monitoring          []string // kinds of the Prometheus Operator

	// Answers of Prometheus.
	Answers map[Source]prom.Vector
	// Retention as Prometheus states it, "30d or 512GiB"; empty where it does not.
	Retention string
}

// ScaledObject is the part of KEDA's object that checks read.
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

// ResourceSlice is the part of a slice that all versions of its API have.
type ResourceSlice struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Driver   string `json:"driver"`
		NodeName string `json:"nodeName"`
		Devices  []struct {
			Name string `json:"name"`
		} `json:"devices"`
	} `json:"spec"`
}

package doctor

import "slices"

// Source is one thing that is read, once.
type Source string

// Sources of Kubernetes.
const (
	Nodes               Source = "nodes"
	Pods                Source = "pods"
	Deployments         Source = "deployments"
	DaemonSets          Source = "daemonsets"
	APIServices         Source = "apiservices"
	Services            Source = "services"
	EndpointSlices      Source = "endpointslices"
	ConfigMaps          Source = "configmaps"
	CRDs                Source = "customresourcedefinitions"
	Pools               Source = "gpunodepools"
	GPUQuotas           Source = "gpuquotas"
	HPAs                Source = "horizontalpodautoscalers"
	ScaledObjects       Source = "scaledobjects"
	ResourceQuotas      Source = "resourcequotas"
	Leases              Source = "leases"
	NodeLeases          Source = "node leases"
	ClusterRoleBindings Source = "clusterrolebindings"
	RoleBindings        Source = "rolebindings"
	ResourceSlices      Source = "resourceslices"
	CustomMetrics       Source = "custom metrics"
	ExternalMetrics     Source = "external metrics"
	Monitoring          Source = "monitors"
	ClusterRoles        Source = "clusterroles"
	Budgets             Source = "poddisruptionbudgets"
	ValidatingWebhooks  Source = "validatingwebhookconfigurations"
	MutatingWebhooks    Source = "mutatingwebhookconfigurations"
)

// Sources of Prometheus.
const (
	Clock             Source = "prometheus: clock"
	GPUNodes          Source = "prometheus: GPUs by node"
	GPUsTwice         Source = "prometheus: GPUs exported twice"
	LabelsMoved       Source = "prometheus: allocations by exported_namespace"
	LabelsPlain       Source = "prometheus: allocations by namespace"
	LabelsSelf        Source = "prometheus: allocations to the exporter"
	BusyMissing       Source = "prometheus: GPUs without busy ratio"
	AttributionOld    Source = "prometheus: attribution age"
	AttributionFailed Source = "prometheus: attribution errors"
	AttributionNone   Source = "prometheus: nodes without attribution"
	SamplesOld        Source = "prometheus: sample age"
	Builds            Source = "prometheus: programs scraped"
	TargetsDown       Source = "prometheus: targets down"
	Recorded          Source = "prometheus: recording rules"
	LastReconcile     Source = "prometheus: last reconcile"
	Leaders           Source = "prometheus: leaders"
	LimitsExceeded    Source = "prometheus: limits of namespaces"
	Retention         Source = "prometheus: retention"
)

// Described is the documentation of a Source.
type Described struct {
	Source Source
	// Path of a listing or an object; %s is a namespace or a name that other facts
	// give. Several are tried in order: versions of one API.
	Paths []string
	// Right that is needed: "list nodes".
	Right string
	// Optional is an API that may be absent.
	Optional bool
	// Query of Prometheus.
	Query string
}

// Table of all sources, in the order in which they are read.
var Table = []Described{
	{Source: Deployments, Paths: []string{"/apis/apps/v1/deployments"}, Right: "list deployments.apps"},
	{Source: DaemonSets, Paths: []string{"/apis/apps/v1/daemonsets"}, Right: "list daemonsets.apps"},
	{Source: APIServices, Paths: []string{"/apis/apiregistration.k8s.io/v1/apiservices"}, Right: "list apiservices.apiregistration.k8s.io"},
	{Source: Nodes, Paths: []string{"/api/v1/nodes"}, Right: "list nodes"},
	{Source: Pods, Paths: []string{"/api/v1/pods"}, Right: "list pods"},
	{Source: Pools, Paths: []string{"/apis/gpuscale.io/v1alpha1/gpunodepools"}, Right: "list gpunodepools.gpuscale.io", Optional: true},
	{Source: GPUQuotas, Paths: []string{"/apis/gpuscale.io/v1alpha1/gpuquotas"}, Right: "list gpuquotas.gpuscale.io", Optional: true},
	{Source: HPAs, Paths: []string{"/apis/autoscaling/v2/horizontalpodautoscalers"}, Right: "list horizontalpodautoscalers.autoscaling"},
	{Source: ScaledObjects, Paths: []string{"/apis/keda.sh/v1alpha1/scaledobjects"}, Right: "list scaledobjects.keda.sh", Optional: true},
	{Source: ResourceQuotas, Paths: []string{"/api/v1/resourcequotas"}, Right: "list resourcequotas"},
	{Source: NodeLeases, Paths: []string{"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"}, Right: "list leases.coordination.k8s.io in kube-node-lease"},
	{Source: ClusterRoleBindings, Paths: []string{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"}, Right: "list clusterrolebindings.rbac.authorization.k8s.io"},
	{Source: ClusterRoles, Paths: []string{"/apis/rbac.authorization.k8s.io/v1/clusterroles"}, Right: "list clusterroles.rbac.authorization.k8s.io"},
	{Source: RoleBindings, Paths: []string{"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"}, Right: "list rolebindings.rbac.authorization.k8s.io in kube-system"},
	{Source: Budgets, Paths: []string{"/apis/policy/v1/poddisruptionbudgets"}, Right: "list poddisruptionbudgets.policy"},
	{Source: ValidatingWebhooks, Paths: []string{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"}, Right: "list validatingwebhookconfigurations.admissionregistration.k8s.io"},
	{Source: MutatingWebhooks, Paths: []string{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"}, Right: "list mutatingwebhookconfigurations.admissionregistration.k8s.io"},
	{Source: ResourceSlices, Paths: []string{"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta2/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices"},
		Right: "list resourceslices.resource.k8s.io", Optional: true},
	{Source: CustomMetrics, Paths: []string{"/apis/custom.metrics.k8s.io/v1beta2", "/apis/custom.metrics.k8s.io/v1beta1"}, Right: "get /apis/custom.metrics.k8s.io (discovery)", Optional: true},
	{Source: ExternalMetrics, Paths: []string{"/apis/external.metrics.k8s.io/v1beta1"}, Right: "get /apis/external.metrics.k8s.io (discovery)", Optional: true},
	{Source: Monitoring, Paths: []string{"/apis/monitoring.coreos.com/v1"}, Right: "get /apis/monitoring.coreos.com (discovery)", Optional: true},
	{Source: CRDs, Paths: []string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/%s"}, Right: "get customresourcedefinitions.apiextensions.k8s.io"},
	{Source: Services, Paths: []string{"/api/v1/namespaces/%s/services/%s"}, Right: "get services"},
	{Source: EndpointSlices, Paths: []string{"/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices"}, Right: "list endpointslices.discovery.k8s.io"},
	{Source: ConfigMaps, Paths: []string{"/api/v1/namespaces/%s/configmaps/%s"}, Right: "get configmaps"},
	{Source: Leases, Paths: []string{"/apis/coordination.k8s.io/v1/namespaces/%s/leases"}, Right: "list leases.coordination.k8s.io"},
	{Source: Clock, Query: "vector(time())"},
	{Source: GPUNodes, Query: "count by (node) ($gpu_info)"},
	{Source: GPUsTwice, Query: "count by (job, instance, namespace, pod) ($gpu_info and on (gpu_uuid) (count by (gpu_uuid) ($gpu_info) > 1))"},
	{Source: LabelsMoved, Query: "count by (job) ($gpu_held{exported_pod!=\"\"})"},
	{Source: LabelsPlain, Query: "count by (job) ($gpu_held{exported_pod=\"\",pod!=\"\"} unless on (job, instance, namespace, pod) $gpu_attribution_age_seconds)"},
	{Source: LabelsSelf, Query: "count by (job, namespace, pod) ($gpu_held{exported_pod=\"\"} and on (job, instance, namespace, pod) $gpu_attribution_age_seconds)"},
	{Source: BusyMissing, Query: "count by (node) ((($gpu_info{mig=\"false\"} unless on (node, gpu_uuid) $gpu_busy_ratio) or" +
		" ($gpu_instance_info unless on (node, gpu_uuid, gpu_instance_id) $gpu_instance_busy_ratio)) unless on (node, gpu_uuid) ($gpu_healthy == 0))"},
	{Source: AttributionOld, Query: "max by (node) ($gpu_attribution_age_seconds) > 300"},
	{Source: AttributionFailed, Query: "sum by (job, instance) (increase($gpuscale_exporter_attribution_errors_total[15m])) > 0 unless on (job, instance) $gpu_attribution_age_seconds" +
		// A target that is no longer scraped, or is under another job, has neither.
		" and on (job, instance) $gpuscale_exporter_build_info"},
	{Source: AttributionNone, Query: "count by (node) ($gpu_info) unless on (node) count by (node) ($gpu_attribution_age_seconds)"},
	{Source: SamplesOld, Query: "max by (node) ($gpu_sample_age_seconds) > 120"},
	{Source: Builds, Query: `label_replace(count($gpuscale_exporter_build_info), "program", "exporter", "", "") or label_replace(count($gpuscale_adapter_build_info), "program", "adapter", "", "")` +
		` or label_replace(count($gpuscale_autoscaler_build_info), "program", "autoscaler", "", "")`},
	{Source: TargetsDown, Query: `count by (job, namespace, pod, instance) ($up{job=~"gpuscale-(exporter|adapter|autoscaler)"} == 0)`},
	{Source: Recorded, Query: `label_replace(count($node:gpu_info:count), "rule", "node:gpu_info:count", "", "")` +
		// An autoscaler that started half a minute ago has no counters yet.
		` or label_replace(count($pool:gpuscale_capacity_gpu_seconds:rate5m) or absent(rate($gpuscale_autoscaler_capacity_gpu_seconds_total[5m])), "rule", "pool:gpuscale_capacity_gpu_seconds:rate5m", "", "")`},
	{Source: LastReconcile, Query: "max($gpuscale_autoscaler_last_reconcile_timestamp_seconds)"},
	{Source: Leaders, Query: "sum($gpuscale_autoscaler_leader)"},
	{Source: LimitsExceeded, Query: "max by (namespace, exported_namespace, reason) ($gpuscale_autoscaler_limit_exceeded_pods)"},
	{Source: Retention, Query: "GET /api/v1/status/runtimeinfo"},
}

// Names of sources, those of Prometheus as one.
func Names(sources []Source) []string {
	var out []string
	asked := false
	for _, d := range Table {
		if !slices.Contains(sources, d.Source) {
			continue
		}
		if d.Query == "" {
			out = append(out, string(d.Source))
		}
		asked = asked || d.Query != ""
	}
	if asked {
		out = append(out, "Prometheus")
	}
	return out
}

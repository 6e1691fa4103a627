package doctor

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Source is one thing that is read, once.
type Source struct {
	Name string
	// Paths of a listing of Kubernetes, or of an object; %s is what other facts name. Several
	// are versions of one API, tried in order.
	Paths []string
	// Optional is an API that may be absent.
	Optional bool
	// Fields is a field selector of a listing.
	Fields string
	// Query of Prometheus: a name after a dollar sign is a selector.
	Query string

	take  sink                          // of a listing's pages
	named func(*reading, *Source) []key // what other facts name; nil where all are listed
}

// Sources of Kubernetes, and then of Prometheus.
var (
	Deployments = list("/apis/apps/v1/deployments", into(func(f *Facts) *[]*deployment { return &f.Deployments }, nil))
	DaemonSets  = list("/apis/apps/v1/daemonsets", into(func(f *Facts) *[]*daemonSet { return &f.DaemonSets }, nil))
	APIServices = list("/apis/apiregistration.k8s.io/v1/apiservices", into(func(f *Facts) *[]*apiService { return &f.APIServices }, nil))
	Nodes       = list("/api/v1/nodes", into(func(f *Facts) *[]*corev1.Node { return &f.Nodes }, func(n *corev1.Node) bool {
		n.Status.Images = nil // which are large, and read by no check
		return true
	}))
	Pods                = list("/api/v1/pods", into(func(f *Facts) *[]*corev1.Pod { return &f.Pods }, keepPod))
	Pools               = optional(list("/apis/gpuscale.io/v1alpha1/gpunodepools", into(func(f *Facts) *[]*pool { return &f.Pools }, nil)))
	GPUQuotas           = optional(list("/apis/gpuscale.io/v1alpha1/gpuquotas", into(func(f *Facts) *[]*gpuQuota { return &f.GPUQuotas }, nil)))
	HPAs                = list("/apis/autoscaling/v2/horizontalpodautoscalers", into(func(f *Facts) *[]*hpa { return &f.HPAs }, nil))
	ScaledObjects       = optional(list("/apis/keda.sh/v1alpha1/scaledobjects", into(func(f *Facts) *[]*ScaledObject { return &f.ScaledObjects }, nil)))
	ResourceQuotas      = list("/api/v1/resourcequotas", into(func(f *Facts) *[]*corev1.ResourceQuota { return &f.ResourceQuotas }, nil))
	NodeLeases          = called("node leases", list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", into(func(f *Facts) *[]*lease { return &f.NodeLeases }, nil)))
	ClusterRoleBindings = list("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", into(func(f *Facts) *[]*clusterRoleBinding { return &f.ClusterRoleBindings }, nil))
	ClusterRoles        = list("/apis/rbac.authorization.k8s.io/v1/clusterroles", into(func(f *Facts) *[]*clusterRole { return &f.ClusterRoles }, nil))
	RoleBindings        = list("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings", into(func(f *Facts) *[]*roleBinding { return &f.RoleBindings }, nil))
	Budgets             = list("/apis/policy/v1/poddisruptionbudgets", into(func(f *Facts) *[]*budget { return &f.Budgets }, nil))
	ValidatingWebhooks  = list("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", into(func(f *Facts) *[]*webhooks { return &f.ValidatingWebhooks }, nil))
	MutatingWebhooks    = list("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", into(func(f *Facts) *[]*webhooks { return &f.MutatingWebhooks }, nil))
	LimitRanges         = list("/api/v1/limitranges", into(func(f *Facts) *[]*corev1.LimitRange { return &f.LimitRanges }, nil))
	NetworkPolicies     = list("/apis/networking.k8s.io/v1/networkpolicies", into(func(f *Facts) *[]*networkingv1.NetworkPolicy { return &f.NetworkPolicies }, nil))
	Refusals            = &Source{Name: "events", Paths: []string{"/api/v1/events"}, Fields: "reason=" + failedCreate, take: into(func(f *Facts) *[]*corev1.Event { return &f.Refusals }, isRefusal)}
	ResourceSlices      = optional(list("/apis/resource.k8s.io/v1/resourceslices", into(func(f *Facts) *[]*ResourceSlice { return &f.ResourceSlices }, nil),
		"/apis/resource.k8s.io/v1beta2/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices"))
	CustomMetrics   = discovery("custom metrics", func(f *Facts) *[]string { return &f.CustomMetrics }, "/apis/custom.metrics.k8s.io/v1beta2", "/apis/custom.metrics.k8s.io/v1beta1")
	ExternalMetrics = discovery("external metrics", func(f *Facts) *[]string { return &f.ExternalMetrics }, "/apis/external.metrics.k8s.io/v1beta1")
	Monitoring      = discovery("monitors", func(f *Facts) *[]string { return &f.Monitoring }, "/apis/monitoring.coreos.com/v1")
	CRDs            = named("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/%s", into(func(f *Facts) *[]*crd { return &f.CRDs }, nil), ourCRDs)
	Services        = named("/api/v1/namespaces/%s/services/%s", into(func(f *Facts) *[]*corev1.Service { return &f.Services }, nil), services)
	EndpointSlices  = named("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices", into(func(f *Facts) *[]*discoveryv1.EndpointSlice { return &f.EndpointSlices }, nil), services)
	ConfigMaps      = named("/api/v1/namespaces/%s/configmaps/%s", into(func(f *Facts) *[]*corev1.ConfigMap { return &f.ConfigMaps }, nil), configMaps)
	Leases          = named("/apis/coordination.k8s.io/v1/namespaces/%s/leases", into(func(f *Facts) *[]*lease { return &f.Leases }, nil), leases)
	ReplicaSets     = named("/apis/apps/v1/namespaces/%s/replicasets/%s", intoWorkloads, refusedOf("ReplicaSet"))
	StatefulSets    = named("/apis/apps/v1/namespaces/%s/statefulsets/%s", intoWorkloads, refusedOf("StatefulSet"))
	Jobs            = named("/apis/batch/v1/namespaces/%s/jobs/%s", intoWorkloads, refusedOf("Job"))

	Clusters = ask("clusters", `count by (cluster) ($gpu_info{cluster!=""} or $gpuscale_exporter_build_info{cluster!=""} or $gpuscale_adapter_build_info{cluster!=""} or $gpuscale_autoscaler_build_info{cluster!=""})`)

	Clock       = ask("clock", "vector(time())")
	GPUNodes    = ask("GPUs by node", "count by (node) ($gpu_info)")
	GPUsTwice   = ask("GPUs exported twice", "count by (job, instance, namespace, pod) ($gpu_info and on (gpu_uuid) (count by (gpu_uuid) ($gpu_info) > 1))")
	LabelsMoved = ask("allocations by exported_namespace", `count by (job) ($gpu_held{exported_pod!=""})`)
	LabelsPlain = ask("allocations by namespace", `count by (job) ($gpu_held{exported_pod="",pod!=""} unless on (job, instance, namespace, pod) $gpu_attribution_age_seconds)`)
	LabelsSelf  = ask("allocations to the exporter", `count by (job, namespace, pod) ($gpu_held{exported_pod=""} and on (job, instance, namespace, pod) $gpu_attribution_age_seconds)`)
	BusyMissing = ask("GPUs without busy ratio", `count by (node) ((($gpu_info{mig="false"} unless on (node, gpu_uuid) $gpu_busy_ratio) or`+
		" ($gpu_instance_info unless on (node, gpu_uuid, gpu_instance_id) $gpu_instance_busy_ratio)) unless on (node, gpu_uuid) ($gpu_healthy == 0))")
	AttributionOld    = ask("attribution age", "max by (node) ($gpu_attribution_age_seconds) > 300")
	AttributionFailed = ask("attribution errors", "sum by (job, instance) (increase($gpuscale_exporter_attribution_errors_total[15m])) > 0 unless on (job, instance) $gpu_attribution_age_seconds"+
		// A target that is no longer scraped, or is under another job, has neither.
		" and on (job, instance) $gpuscale_exporter_build_info")
	AttributionNone = ask("nodes without attribution", "count by (node) ($gpu_info) unless on (node) count by (node) ($gpu_attribution_age_seconds)")
	SamplesOld      = ask("sample age", "max by (node) ($gpu_sample_age_seconds) > 120")
	Builds          = ask("programs scraped", `label_replace(count($gpuscale_exporter_build_info), "program", "exporter", "", "") or label_replace(count($gpuscale_adapter_build_info), "program", "adapter", "", "")`+
		` or label_replace(count($gpuscale_autoscaler_build_info), "program", "autoscaler", "", "")`)
	TargetsDown = ask("targets down", `count by (job, namespace, pod, instance) ($up{job=~"gpuscale-(exporter|adapter|autoscaler)"} == 0)`)
	// The rules are evaluated each half minute: what is newer than a minute may have none yet.
	Recorded = ask("recording rules", `label_replace(count($node:gpu_info:count) or absent($gpu_info offset 1m), "rule", "node:gpu_info:count", "", "")`+
		` or label_replace(count($pool:gpuscale_capacity_gpu_seconds:rate5m) or absent(rate($gpuscale_autoscaler_capacity_gpu_seconds_total[5m] offset 1m)), "rule", "pool:gpuscale_capacity_gpu_seconds:rate5m", "", "")`)
	LastReconcile  = ask("last reconcile", "max($gpuscale_autoscaler_last_reconcile_timestamp_seconds)")
	Leaders        = ask("leaders", "sum($gpuscale_autoscaler_leader)")
	LimitsExceeded = ask("limits of namespaces", "max by (namespace, exported_namespace, reason) ($gpuscale_autoscaler_limit_exceeded_pods)")
	Retention      = ask("retention", "GET /api/v1/status/runtimeinfo")
)

// Table of all sources, in the order in which they are read.
var Table = []*Source{
	Deployments, DaemonSets, APIServices, Nodes, Pods, Pools, GPUQuotas, HPAs, ScaledObjects, ResourceQuotas, NodeLeases, ClusterRoleBindings, ClusterRoles, RoleBindings,
	Budgets, ValidatingWebhooks, MutatingWebhooks, LimitRanges, NetworkPolicies, Refusals, ResourceSlices, CustomMetrics, ExternalMetrics, Monitoring, CRDs, Services, EndpointSlices, ConfigMaps, Leases,
	ReplicaSets, StatefulSets, Jobs,
	Clusters, Clock, GPUNodes, GPUsTwice, LabelsMoved, LabelsPlain, LabelsSelf, BusyMissing, AttributionOld, AttributionFailed, AttributionNone, SamplesOld, Builds, TargetsDown,
	Recorded, LastReconcile, Leaders, LimitsExceeded, Retention,
}

// list is a listing that has the name of its resource.
func list(path string, take sink, older ...string) *Source {
	s := &Source{Paths: append([]string{path}, older...), take: take}
	s.Name = s.resource()
	return s
}

// named is a listing, or objects, of what other facts name.
func named(path string, take sink, of func(*reading, *Source) []key) *Source {
	s := list(path, take)
	s.named = of
	return s
}

var intoWorkloads = into(func(f *Facts) *[]*Workload { return &f.Workloads }, nil)

// resource is the name of the resource in a path.
func (s *Source) resource() string {
	path := strings.TrimSuffix(s.Paths[0], "/%s")
	return path[strings.LastIndexByte(path, '/')+1:]
}

func called(name string, s *Source) *Source { s.Name = name; return s }

func optional(s *Source) *Source { s.Optional = true; return s }

func ask(name, promql string) *Source {
	return &Source{Name: "prometheus: " + name, Query: promql}
}

// Right is the right that a source of Kubernetes needs: "list deployments.apps".
func (s *Source) Right() string {
	parts := strings.Split(s.Paths[0], "/") // "", "apis", group, version, …
	if parts[1] == "apis" && len(parts) == 4 {
		return "get /apis/" + parts[2] + " (discovery)"
	}
	verb, resource, namespace := "list", s.resource(), ""
	if strings.HasSuffix(s.Paths[0], "%s") {
		verb = "get"
	}
	if parts[1] == "apis" {
		resource += "." + parts[2]
	}
	if at := slices.Index(parts, "namespaces"); at >= 0 && at+1 < len(parts) && parts[at+1] != "%s" {
		namespace = " in " + parts[at+1]
	}
	return verb + " " + resource + namespace
}

// Sources that checks read, each once, in the order of Table. Some show whether gpuscale is
// installed at all, and whether Prometheus has this cluster's series alone.
func Sources(checks []Check) []*Source {
	wanted := map[*Source]bool{Deployments: true, DaemonSets: true, APIServices: true, Clusters: true, Builds: true, GPUNodes: true}
	for _, c := range checks {
		for _, s := range c.Reads() {
			wanted[s] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(Table), func(s *Source) bool { return !wanted[s] })
}

// Names of sources, those of Prometheus as one.
func Names(sources []*Source) []string {
	var out []string
	asked := false
	for _, s := range Table {
		switch {
		case !slices.Contains(sources, s):
		case s.Query == "":
			out = append(out, s.Name)
		default:
			asked = true
		}
	}
	if asked {
		out = append(out, "Prometheus")
	}
	return out
}

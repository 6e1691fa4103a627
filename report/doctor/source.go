package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is something that is read once: a list, objects that other facts name, or the answer to a query.
type Source struct {
	Name string
	// Paths of a Kubernetes list or object; %s is replaced by what other facts name. Several paths are versions of one
	// API, tried in order.
	Paths []string
	// Optional marks an API that may not exist.
	Optional bool
	// Fields is a field selector for a list.
	Fields string
	// Query is a Prometheus query in which $name is a selector of the series.
	Query string

	named func(*Facts) []key // keys that other facts name; nil if all objects are listed
	// take adds the objects of a page to those of earlier pages. It returns the token of the next page and the number
	// of objects in this page.
	take func(before any, page []byte) (all any, next string, objects int, err error)
}

// key is a namespace and a name; one of them may be empty.
type key struct{ namespace, name string }

// kind is a source of objects of one type.
type kind[T any] struct{ *Source }

// Of returns the objects that were read.
func (k kind[T]) Of(f *Facts) []*T {
	all, _ := f.objects[k.Source].([]*T)
	return all
}

// in is Of for a check, which must declare the source.
func (k kind[T]) in(l *look) []*T {
	l.has(k)
	return k.Of(l.Facts)
}

// sourced is a source of any kind.
type sourced interface{ source() *Source }

func (s *Source) source() *Source { return s }

// from collects the sources that a check declares.
func from(all ...sourced) (out []*Source) {
	for _, s := range all {
		out = append(out, s.source())
	}
	return out
}

// listing is a list from the first of its paths that exists. It keeps objects for which keep is true; nil
// keeps all. A discovery page is a list of resources.
func listing[T any](keep func(*T) bool, paths ...string) kind[T] {
	s := &Source{Paths: paths}
	s.Name = s.resource()
	s.take = func(before any, raw []byte) (any, string, int, error) {
		var page struct {
			Metadata  metav1.ListMeta `json:"metadata"`
			Items     []T             `json:"items"`
			Resources []T             `json:"resources"`
		}
		all, _ := before.([]*T)
		if err := json.Unmarshal(raw, &page); err != nil {
			return all, "", 0, fmt.Errorf("reading a list: %w", err)
		}
		items := append(page.Items, page.Resources...)
		for i := range items {
			if keep == nil || keep(&items[i]) {
				all = append(all, &items[i])
			}
		}
		return all, page.Metadata.Continue, len(items), nil
	}
	return kind[T]{s}
}

func (k kind[T]) optional() kind[T]                   { k.Optional = true; return k }
func (k kind[T]) called(name string) kind[T]          { k.Name = name; return k }
func (k kind[T]) where(fields string) kind[T]         { k.Fields = fields; return k }
func (k kind[T]) by(named func(*Facts) []key) kind[T] { k.named = named; return k }

// withoutImages keeps every node, and drops its images, which are large and not read.
func withoutImages(n *corev1.Node) bool {
	n.Status.Images = nil
	return true
}

// Sources of Kubernetes.
var (
	Deployments         = listing[deployment](nil, "/apis/apps/v1/deployments")
	DaemonSets          = listing[daemonSet](nil, "/apis/apps/v1/daemonsets")
	APIServices         = listing[apiService](nil, "/apis/apiregistration.k8s.io/v1/apiservices")
	Nodes               = listing(withoutImages, "/api/v1/nodes")
	Pods                = listing(keepPod, "/api/v1/pods")
	Pools               = listing[pool](nil, "/apis/gpuscale.io/v1alpha1/gpunodepools").optional()
	GPUQuotas           = listing[gpuQuota](nil, "/apis/gpuscale.io/v1alpha1/gpuquotas").optional()
	HPAs                = listing[hpa](nil, "/apis/autoscaling/v2/horizontalpodautoscalers")
	ScaledObjects       = listing[ScaledObject](nil, "/apis/keda.sh/v1alpha1/scaledobjects").optional()
	ResourceQuotas      = listing[corev1.ResourceQuota](nil, "/api/v1/resourcequotas")
	NodeLeases          = listing[coordinationv1.Lease](nil, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").called("node leases")
	ClusterRoleBindings = listing[rbacv1.ClusterRoleBinding](nil, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
	ClusterRoles        = listing[rbacv1.ClusterRole](nil, "/apis/rbac.authorization.k8s.io/v1/clusterroles")
	RoleBindings        = listing[rbacv1.RoleBinding](nil, "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings")
	Budgets             = listing[budget](nil, "/apis/policy/v1/poddisruptionbudgets")
	LimitRanges         = listing[corev1.LimitRange](nil, "/api/v1/limitranges")
	NetworkPolicies     = listing[networkingv1.NetworkPolicy](nil, "/apis/networking.k8s.io/v1/networkpolicies")
	Refusals            = listing(isRefusal, "/api/v1/events").where("reason=" + failedCreate)
	ResourceSlices      = listing[resourcev1.ResourceSlice](nil, "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta2/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices").optional()
	CustomMetrics       = listing[metav1.APIResource](nil, "/apis/custom.metrics.k8s.io/v1beta2", "/apis/custom.metrics.k8s.io/v1beta1").optional().called("custom metrics")
	ExternalMetrics     = listing[metav1.APIResource](nil, "/apis/external.metrics.k8s.io/v1beta1").optional().called("external metrics")
	Monitoring          = listing[metav1.APIResource](nil, "/apis/monitoring.coreos.com/v1").optional().called("monitors")
	MonitoringAlpha     = listing[metav1.APIResource](nil, "/apis/monitoring.coreos.com/v1alpha1").optional().called("Prometheus agents")
	CRDs                = listing[apiextensionsv1.CustomResourceDefinition](nil, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/%s").by(ourCRDs)
	Services            = listing[corev1.Service](nil, "/api/v1/namespaces/%s/services/%s").by(servicesNamed)
	EndpointSlices      = listing[discoveryv1.EndpointSlice](nil, "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices").by(servicesNamed)
	ConfigMaps          = listing[corev1.ConfigMap](nil, "/api/v1/namespaces/%s/configmaps/%s").by(autoscalers(func(p Program) key { return key{p.Namespace, p.ConfigMap} }))
	Leases              = listing[coordinationv1.Lease](nil, "/apis/coordination.k8s.io/v1/namespaces/%s/leases").by(autoscalers(func(p Program) key { return key{namespace: p.Namespace} }))
	ReplicaSets         = listing[Workload](nil, "/apis/apps/v1/namespaces/%s/replicasets/%s").by(refusedOf("ReplicaSet"))
	StatefulSets        = listing[Workload](nil, "/apis/apps/v1/namespaces/%s/statefulsets/%s").by(refusedOf("StatefulSet"))
	Jobs                = listing[Workload](nil, "/apis/batch/v1/namespaces/%s/jobs/%s").by(refusedOf("Job"))
)

// Sources of Prometheus.
var (
	Clusters = ask("clusters", `count by (cluster) ($gpu_info{cluster!=""} or $gpuscale_exporter_build_info{cluster!=""} or $gpuscale_adapter_build_info{cluster!=""} or $gpuscale_autoscaler_build_info{cluster!=""})`)

	Clock       = ask("clock", "vector(time())")
	GPUNodes    = ask("GPUs by node", "count by (node) ($gpu_info)")
	GPUsTwice   = ask("GPUs exported twice", "count by (job, instance, namespace, pod) ($gpu_info and on (gpu_uuid) (count by (gpu_uuid) ($gpu_info) > 1))")
	LabelsMoved = ask("allocations by exported_namespace", `count by (job) ($gpu_held{exported_pod!=""})`)
	LabelsPlain = ask("allocations by namespace", `count by (job) ($gpu_held{exported_pod="",pod!=""} unless on (job, instance, namespace, pod) $gpu_attribution_age_seconds)`)
	LabelsSelf  = ask("allocations to the exporter", `count by (job, namespace, pod) ($gpu_held{exported_pod=""} and on (job, instance, namespace, pod) $gpu_attribution_age_seconds)`)
	BusyMissing = ask("GPUs without busy ratio", `count by (node) (group by (node, gpu_uuid, gpu_instance_id) ((($gpu_info{mig="false"} unless on (node, gpu_uuid) $gpu_busy_ratio) or`+
		" ($gpu_instance_info unless on (node, gpu_uuid, gpu_instance_id) $gpu_instance_busy_ratio)) unless on (node, gpu_uuid) ($gpu_healthy == 0)))")
	AttributionOld    = ask("attribution age", "max by (node) ($gpu_attribution_age_seconds) > 300")
	AttributionFailed = ask("attribution errors", "sum by (job, instance) (increase($gpuscale_exporter_attribution_errors_total[15m])) > 0 unless on (job, instance) $gpu_attribution_age_seconds"+
		// A target that is no longer scraped, or has another job now, has neither series.
		" and on (job, instance) $gpuscale_exporter_build_info")
	AttributionNone = ask("nodes without attribution", "count by (node) ($gpu_info) unless on (node) count by (node) ($gpu_attribution_age_seconds)")
	SamplesOld      = ask("sample age", "max by (node) ($gpu_sample_age_seconds) > 120")
	Builds          = ask("programs scraped", `label_replace(count by (version) ($gpuscale_exporter_build_info), "program", "exporter", "", "") or label_replace(count by (version) ($gpuscale_adapter_build_info), "program", "adapter", "", "")`+
		` or label_replace(count by (version) ($gpuscale_autoscaler_build_info), "program", "autoscaler", "", "") or label_replace(count by (version) ($gpuscale_agent_build_info), "program", "agent", "", "")`)
	TargetsDown      = ask("targets down", `count by (job, namespace, pod, instance) ($up{job=~"gpuscale-(exporter|adapter|autoscaler)"} == 0)`)
	WithoutNamespace = ask("GPUs of targets without a namespace", `count by (job) ($gpu_info{namespace=""})`)
	// Both of the last two quarters of an hour have few samples. After a start of the target or of Prometheus
	// only one of them has.
	ScrapedRarely = ask("seconds between scrapes", `max by (job) (900 / (count_over_time($up{job=~"gpuscale-(exporter|adapter|autoscaler)"}[15m]) and count_over_time($up[15m] offset 15m) < 6)) > 150`)
	// The rules are evaluated every half minute. Series younger than a minute may not be recorded yet.
	Recorded = ask("recording rules", `label_replace(count($node:gpu_info:count) or absent($gpu_info offset 1m), "rule", "node:gpu_info:count", "", "")`+
		` or label_replace(count($pool:gpuscale_capacity_gpu_seconds:rate5m) or absent(rate($gpuscale_autoscaler_capacity_gpu_seconds_total[5m] offset 1m)), "rule", "pool:gpuscale_capacity_gpu_seconds:rate5m", "", "")`)
	LastReconcile  = ask("last reconcile", "max($gpuscale_autoscaler_last_reconcile_timestamp_seconds)")
	Leaders        = ask("leaders", "sum(max by (job, instance, namespace, pod) ($gpuscale_autoscaler_leader))") // if two Prometheus servers scrape one target, it counts once
	LimitsExceeded = ask("limits of namespaces", "max by (namespace, exported_namespace, reason) ($gpuscale_autoscaler_limit_exceeded_pods)")
)

func ask(name, promql string) *Source { return &Source{Name: "prometheus: " + name, Query: promql} }

// Table lists all sources in the order in which they are read. Leases are last of Kubernetes' sources,
// because their age counts until the end of the reading.
var Table = from(
	Deployments, DaemonSets, APIServices, Nodes, Pods, Pools, GPUQuotas, HPAs, ScaledObjects, ResourceQuotas, NodeLeases, ClusterRoleBindings, ClusterRoles, RoleBindings,
	Budgets, LimitRanges, NetworkPolicies, Refusals, ResourceSlices, CustomMetrics, ExternalMetrics, Monitoring, MonitoringAlpha, CRDs, Services, EndpointSlices, ConfigMaps,
	ReplicaSets, StatefulSets, Jobs, Leases,
	Clusters, Clock, GPUNodes, GPUsTwice, LabelsMoved, LabelsPlain, LabelsSelf, BusyMissing, AttributionOld, AttributionFailed, AttributionNone, SamplesOld, Builds, TargetsDown, WithoutNamespace, ScrapedRarely,
	Recorded, LastReconcile, Leaders, LimitsExceeded,
)

// resource returns the name of the resource in a path.
func (s *Source) resource() string {
	path := strings.TrimSuffix(s.Paths[0], "/%s")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// Right is the permission that a Kubernetes source requires: "list deployments.apps".
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

// Sources returns the sources that checks read, each once, in the order of Table. It adds those that show
// whether gpuscale is installed, and whether Prometheus has only this cluster's series.
func Sources(checks []Check) []*Source {
	wanted := from(Deployments, DaemonSets, APIServices, Clusters, Builds, GPUNodes)
	for _, c := range checks {
		wanted = append(wanted, c.Reads()...)
	}
	return slices.DeleteFunc(slices.Clone(Table), func(s *Source) bool { return !slices.Contains(wanted, s) })
}

// Names returns the names of sources; all queries of Prometheus count as one.
func Names(sources []*Source) (out []string) {
	for _, s := range Table {
		name := s.Name
		if s.Query != "" {
			name = "Prometheus"
		}
		if slices.Contains(sources, s) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func ourCRDs(*Facts) (all []key) {
	for _, k := range kinds {
		all = append(all, key{name: k.crd})
	}
	return all
}

// autoscalers returns a key of each autoscaler.
func autoscalers(has func(Program) key) func(*Facts) []key {
	return func(f *Facts) (all []key) {
		for _, p := range f.Programs("autoscaler") {
			all = append(all, has(p))
		}
		return all
	}
}

// servicesNamed returns the Services that the APIServices of the metrics groups name, and the Services of our
// adapters.
func servicesNamed(f *Facts) (all []key) {
	for _, a := range APIServices.Of(f) {
		if isMetrics(a.Spec.Group) && a.Spec.Service != nil {
			all = append(all, key{a.Spec.Service.Namespace, a.Spec.Service.Name})
		}
	}
	for _, p := range f.Programs("adapter") {
		all = append(all, key{p.Namespace, p.Name})
	}
	return all
}

// failedCreate is the reason of Events about pods that a controller could not create.
const failedCreate = "FailedCreate"

func isRefusal(e *corev1.Event) bool {
	return e.Reason == failedCreate && e.Type == corev1.EventTypeWarning
}

// refusedOf returns the workloads of a kind whose pods were refused.
func refusedOf(kind string) func(*Facts) []key {
	return func(f *Facts) (all []key) {
		for _, e := range f.refused() {
			if of := e.InvolvedObject; of.Kind == kind {
				all = append(all, key{of.Namespace, of.Name})
			}
		}
		return all
	}
}

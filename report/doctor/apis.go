package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/internal/text"
)

var adapterChecks = []Check{
	{
		ID: "apiservice-missing", Title: "The metrics APIs are registered", Run: apiServiceMissing,
		Fault: "The adapter is installed, but an APIService that it serves does not exist.",
		Means: "HPAs get no metrics from the adapter and do not scale.",
		Looks: from(Deployments, DaemonSets, APIServices), Also: from(HPAs),
	},
	{
		ID: "apiservice-unavailable", Title: "The API server reaches the adapter", Run: registration,
		Fault: "The API server gets no answer from the adapter, or does not trust it: the Service of an APIService, its port or its endpoints are missing; `caBundle` is not the CA of the adapter's certificate; or the certificate is for another name, has expired or is not valid yet. Or the CA expires within 30 days.",
		Means: "HPAs get no metrics from the adapter and do not scale; the deletion of a namespace may hang.",
		Looks: from(Deployments, DaemonSets, APIServices, Services, EndpointSlices), May: from(Pods),
	},
	{
		ID: "apiservice-owner", Title: "The metrics APIs lead to gpuscale's adapter", Run: apiServiceOwner,
		Fault: "Another server (prometheus-adapter, KEDA) serves an API group that gpuscale's adapter is installed for.",
		Means: "HPAs reach a server that does not have gpuscale's metrics.",
		Looks: from(Deployments, DaemonSets, APIServices, Services), Also: from(HPAs),
	},
	{
		ID: "program-rights", Title: "The adapter and the autoscaler have the permissions that they need", Run: programRights,
		Fault: "The adapter or the autoscaler lacks a permission that it needs in every cluster: no ClusterRole grants it. The adapter's ServiceAccount also needs the ClusterRole `system:auth-delegator` and, in `kube-system`, the Role `extension-apiserver-authentication-reader`.",
		Means: "The adapter refuses all requests or does not start, or metrics of objects that it may not read have no value. The autoscaler does not plan without objects that it may not read, and its writes fail.",
		Looks: from(Deployments, DaemonSets, ClusterRoles, ClusterRoleBindings, RoleBindings),
	},
}

// Groups of the metrics APIs.
const (
	groupCustom   = "custom.metrics.k8s.io"
	groupExternal = "external.metrics.k8s.io"
)

// isMetrics reports whether a group is a metrics API that the adapter can serve.
func isMetrics(group string) bool { return group == groupCustom || group == groupExternal }

// annotationAPIs is an annotation of the adapter's Deployment: the API groups that the adapter is installed
// with, separated by commas. Without it the intended groups are unknown.
const annotationAPIs = "gpuscale.io/metrics-apis"

// groupMeant reports whether an adapter is meant to serve the group (yes), or whether the annotations say
// that none is (no). Both are false where the annotation is missing.
func groupMeant(adapters []Program, group string) (yes, no bool) {
	for _, p := range adapters {
		text, stated := p.Annotations[annotationAPIs]
		yes, no = yes || stated && slices.Contains(strings.Split(text, ","), group), no || stated
	}
	return yes, no && !yes
}

// leadsTo reports whether an APIService's Service leads to an adapter.
func leadsTo(l *look, a *apiService, p Program) bool {
	ref := a.Spec.Service
	if ref == nil || p.Namespace != ref.Namespace {
		return false
	}
	service := find(Services.in(l), ref.Namespace, ref.Name)
	return p.Name == ref.Name || service != nil && len(service.Spec.Selector) > 0 && selects(service, p)
}

// adapterOf returns the adapter that an APIService leads to, or is meant for.
func adapterOf(l *look, a *apiService, adapters []Program) Program {
	leads := the(adapters, func(p Program) bool { return leadsTo(l, a, p) })
	return *cmp.Or(leads, meantFor(adapters, a.Spec.Group))
}

// meantFor returns the adapter that is meant to serve the group, or the first one.
func meantFor(adapters []Program, group string) *Program {
	return cmp.Or(the(adapters, func(p Program) bool { yes, _ := groupMeant([]Program{p}, group); return yes }), &adapters[0])
}

// owned reports whether an APIService is ours (is), or was ours (was): then its Service does not exist.
func owned(l *look, a *apiService, adapters []Program) (is, was bool) {
	ref := a.Spec.Service
	if ref == nil {
		return false, false
	}
	is = slices.ContainsFunc(adapters, func(p Program) bool { return leadsTo(l, a, p) })
	return is, find(Services.in(l), ref.Namespace, ref.Name) == nil && isOurs(a.Labels)
}

func selects(s *corev1.Service, p Program) bool {
	return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.PodLabels))
}

// ourAdapters returns our adapters. Without any, the check is skipped.
func ourAdapters(l *look) []Program {
	return orSkip(l, l.programs("adapter"), "no gpuscale adapter is installed")
}

// registry lists our adapters and the APIServices of the metrics APIs.
type registry struct {
	adapters     []Program
	ours, others []*apiService // ours lead to our adapters, or did; others lead to other servers
}

// registered reads the APIServices of the metrics APIs. Without an adapter of ours the check is skipped.
func registered(l *look) (r registry) {
	if r.adapters = ourAdapters(l); len(r.adapters) == 0 {
		return r
	}
	for _, a := range APIServices.in(l) {
		switch is, was := owned(l, a, r.adapters); {
		case !isMetrics(a.Spec.Group):
		case is || was:
			r.ours = append(r.ours, a)
		default:
			r.others = append(r.others, a)
		}
	}
	return r
}

// serves reports whether our adapter serves a group now. Only then is the list of the group's metrics
// complete.
func (r registry) serves(group string) bool {
	return slices.ContainsFunc(r.ours, func(a *apiService) bool {
		c := available(a)
		return a.Spec.Group == group && c != nil && c.Status == apiregistrationv1.ConditionTrue
	})
}

// asking returns the HPAs that use a metric of a group; if names are given, only HPAs with one of these
// metrics.
func asking(hpas []*hpa, group string, names ...string) []string {
	var out []string
	for _, h := range hpas {
		if slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
			g, name, _ := metricOf(m)
			return g == group && (len(names) == 0 || slices.Contains(names, name))
		}) {
			out = append(out, h.Namespace+"/"+h.Name)
		}
	}
	return out
}

// metricOf returns the group and the name of an HPA's metric, and the field of the HPA that has it. The group
// is empty for Kubernetes' own metrics (CPU, memory).
func metricOf(m autoscalingv2.MetricSpec) (group, name, field string) {
	switch {
	case m.Pods != nil:
		return groupCustom, m.Pods.Metric.Name, "pods"
	case m.Object != nil:
		return groupCustom, m.Object.Metric.Name, "object"
	case m.External != nil:
		return groupExternal, m.External.Metric.Name, "external"
	}
	return "", "", ""
}

func apiServiceMissing(l *look) {
	adapters := ourAdapters(l)
	if len(adapters) == 0 {
		return
	}
	there := func(name string) bool { return find(APIServices.in(l), "", name) != nil }
	for _, name := range []string{"v1beta2." + groupCustom, "v1beta1." + groupCustom, "v1beta1." + groupExternal} {
		_, group, _ := strings.Cut(name, ".")
		meant, not := groupMeant(adapters, group)
		if there(name) || not {
			continue
		}
		p := *meantFor(adapters, group)
		add, seen, fix := l.fault, "the APIService does not exist, although "+p.Object()+" is installed", "Install the adapter again: this creates the APIService."
		users := asking(HPAs.in(l), group)
		if len(users) > 0 {
			seen += "; HPAs that use it: " + several(users)
		}
		means := ""
		switch {
		case group == groupCustom && (there("v1beta1."+group) || there("v1beta2."+group)):
			add, means = l.warn, "HPAs use the other version of the group, which answers; only v1beta2 supports a selector of a metric."
		case len(users) == 0 && !meant:
			add, fix = l.warn, "If HPAs should use this group, install the adapter again: this creates the APIService."
		}
		add("APIService "+name, seen, fix, l.install(p, "adapter.yaml"), l.kubectl("get", "apiservice", name)).Means = means
	}
}

// available returns the condition Available, or nil if it is not set yet.
func available(a *apiService) *apiregistrationv1.APIServiceCondition {
	return the(a.Status.Conditions, func(c apiregistrationv1.APIServiceCondition) bool { return c.Type == apiregistrationv1.Available })
}

// stated writes the condition Available of an APIService as text.
func stated(a *apiService) string {
	c := available(a)
	if c == nil {
		return "the APIService has no condition Available yet"
	}
	return fmt.Sprintf("Available=%s, %s: %s", c.Status, c.Reason, c.Message)
}

// refused reports whether the condition Available contains one of the given words, which are Go's errors
// about the adapter's certificate. There is no other source: doctor connects to no pod.
func refused(a *apiService, words ...string) bool {
	c := available(a)
	return c != nil && c.Status != apiregistrationv1.ConditionTrue && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.Message, w) })
}

// labelService is the label by which an EndpointSlice names its Service.
const labelService = "kubernetes.io/service-name"

// hasEndpoint reports whether a Service has an endpoint that takes requests. A Service of type ExternalName
// requires none.
func hasEndpoint(l *look, s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeExternalName || slices.ContainsFunc(EndpointSlices.in(l), func(slice *discoveryv1.EndpointSlice) bool {
		return slice.Namespace == s.Namespace && slice.Labels[labelService] == s.Name && slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
			return len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready)
		})
	})
}

func apiServiceOwner(l *look) {
	r := registered(l)
	for _, a := range r.others {
		meant, not := groupMeant(r.adapters, a.Spec.Group)
		if not {
			continue
		}
		add, seen := l.warn, "spec.service is empty: the API server itself serves the group"
		if a.Spec.Service != nil {
			seen = "spec.service is " + a.Spec.Service.Namespace + "/" + a.Spec.Service.Name + ", not the Service of gpuscale's adapter"
		}
		fix := "An API group has one server. Either let the APIService lead to gpuscale's adapter, which can forward unknown metrics to the other server (docs/adapter.md); or keep the other server, and remove the group from the chart's adapter.apis."
		users := asking(HPAs.in(l), a.Spec.Group, signals...)
		if len(users) > 0 {
			seen += "; HPAs that use gpuscale's metrics: " + several(users)
		}
		// Another version of the group may be ours.
		split := slices.ContainsFunc(r.ours, func(b *apiService) bool { return b.Spec.Group == a.Spec.Group })
		if isOurs(a.Labels) || meant || split || len(users) > 0 {
			add = l.fault
		} else {
			fix = "If this is intended, do nothing. " + fix
		}
		add("APIService "+a.Name, seen, fix, l.kubectl("get", "apiservice", a.Name, "-o", "yaml"), takeover(l, a, adapterOf(l, a, r.adapters)))
	}
}

// takeover writes the command that makes an APIService lead to the adapter, with the CA of the adapter's
// certificate. It is only for an APIService that our manifests created.
func takeover(l *look, a *apiService, p Program) string {
	if !isOurs(a.Labels) {
		return ""
	}
	port := int32(443)
	if s := find(Services.in(l), p.Namespace, p.Name); s != nil {
		port = cmp.Or(httpsPort(s), port)
	}
	return register(l.commands, a, p, fmt.Sprintf(`"service":{"namespace":%q,"name":%q,"port":%d},`, p.Namespace, p.Name, port))
}

// register writes the command that sets fields of an APIService, and its caBundle from the adapter's Secret.
// The command sets no caBundle where cert-manager, OpenShift or (without a Secret) the adapter itself does.
func register(c commands, a *apiService, p Program, fields string) string {
	fields = `{"spec":{` + fields + `"insecureSkipTLSVerify":false`
	if a.Annotations[injectCA] != "" || a.Annotations[injectServiceCA] == "true" || p.Secret == "" {
		return c.patch("", "apiservice", a.Name, fields+"}}")
	}
	patch := c.kubectl("patch", "apiservice", a.Name, "--type=merge", "-p")
	read := c.in(p.Namespace, "get", "secret", p.Secret, "-o", `jsonpath={.data.ca\.crt}`)
	if patch == "" || read == "" {
		return ""
	}
	// The shell inserts the base64 text between the quotes.
	return patch + " " + text.Quote(fields+`,"caBundle":"`) + `"$(` + read + `)"` + text.Quote(`"}}`)
}

// injectCA is cert-manager's annotation for CA injection.
const injectCA = "cert-manager.io/inject-ca-from"

// Annotations for OpenShift's service CA: one puts its CA into an APIService, the other puts a certificate
// into the Secret that a Service names. That Secret has no ca.crt.
const (
	injectServiceCA = "service.beta.openshift.io/inject-cabundle"
	servingSecret   = "service.beta.openshift.io/serving-cert-secret-name"
)

// byServiceCA reports whether OpenShift's service CA issued a program's certificate.
func byServiceCA(l *look, p Program) bool {
	service := find(Services.in(l), p.Namespace, p.Name)
	return p.Secret != "" && service != nil && service.Annotations[servingSecret] == p.Secret
}

// signals lists the adapter's signals when it has no configuration. TestSignals compares them with the
// adapter.
var signals = []string{"gpu_busy", "gpu_share", "gpu_memory_used_ratio", "queue_depth", "requests_running", "kv_cache_usage",
	"ttft_p95", "queue_time_p95", "queue_time_mean", "gpu_tensor_active", "gpu_dram_active"}

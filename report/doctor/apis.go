package doctor

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Groups of the metrics APIs.
const (
	groupCustom   = "custom.metrics.k8s.io"
	groupExternal = "external.metrics.k8s.io"
)

type apiService = apiregistrationv1.APIService

// IsMetrics reports whether a group is one of those the adapter serves.
func IsMetrics(group string) bool { return group == groupCustom || group == groupExternal }

// annotationAPIs of the adapter's Deployment has the groups it is installed with,
// with commas. Without it the intended groups are unknown.
const annotationAPIs = "gpuscale.io/metrics-apis"

// registrations are the APIServices of an adapter.
var registrations = []struct{ version, group string }{{"v1beta2", groupCustom}, {"v1beta1", groupCustom}, {"v1beta1", groupExternal}}

// meant reports whether an adapter is to serve a group.
type meant int

const (
	perhaps meant = iota
	yes
	no
)

func groupMeant(adapters []Program, group string) meant {
	answer := perhaps
	for _, p := range adapters {
		text, stated := p.Annotations[annotationAPIs]
		switch {
		case !stated:
		case slices.Contains(strings.Split(text, ","), group):
			return yes
		default:
			answer = no
		}
	}
	return answer
}

// owner of an APIService.
type owner int

const (
	us owner = iota
	other
	none // its Service does not exist, and nothing marks it as another server's
)

// strangers are other servers of these groups, by the names of their Services.
var strangers = []string{"keda", "prometheus-adapter", "datadog", "stackdriver", "kube-metrics-adapter"}

// ownerOf returns the owner of an APIService.
func (l *look) ownerOf(a *apiService, adapters []Program) owner {
	ref := a.Spec.Service
	if ref == nil {
		return other
	}
	service := l.service(ref.Namespace, ref.Name)
	for _, p := range adapters {
		if p.Namespace != ref.Namespace {
			continue
		}
		if p.Name == ref.Name || service != nil && len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(p.PodLabels)) {
			return us
		}
	}
	if service != nil || slices.ContainsFunc(strangers, func(s string) bool { return strings.Contains(ref.Name, s) }) {
		return other
	}
	if isOurs(a.Labels) {
		return none
	}
	return other
}

// service returns a Service that an APIService names, nil where there is none.
func (l *look) service(namespace, name string) *corev1.Service {
	l.declared(Services)
	return find(l.f.Services, namespace, name)
}

// registered returns an APIService by its name, nil where there is none.
func (l *look) registered(version, group string) *apiService {
	return find(l.f.APIServices, "", version+"."+group)
}

// adapters returns ours; without one the check is skipped.
func (l *look) adapters() []Program {
	all := l.programs("adapter")
	if len(all) == 0 && l.has(Deployments) {
		l.skip("no adapter of gpuscale was found")
	}
	return all
}

// mine returns the APIServices of the metrics groups that are, or are meant to be,
// our adapter's.
func (l *look) mine(adapters []Program) []*apiService {
	l.use(APIServices)
	l.use(Services)
	var out []*apiService
	for _, a := range l.f.APIServices {
		if IsMetrics(a.Spec.Group) && l.ownerOf(a, adapters) != other {
			out = append(out, a)
		}
	}
	return out
}

// asking are the HPAs on a metric of a group; with names, on one of those.
func asking(hpas []*hpa, group string, names ...string) []string {
	var out []string
	for _, h := range hpas {
		if slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
			g, name := metricOf(m)
			return g == group && (len(names) == 0 || slices.Contains(names, name))
		}) {
			out = append(out, h.Namespace+"/"+h.Name)
		}
	}
	return out
}

// metricOf returns the group and the name of a metric; no group for the cluster's own
// (CPU, memory).
func metricOf(m autoscalingv2.MetricSpec) (group, name string) {
	switch {
	case m.Pods != nil:
		return groupCustom, m.Pods.Metric.Name
	case m.Object != nil:
		return groupCustom, m.Object.Metric.Name
	case m.External != nil:
		return groupExternal, m.External.Metric.Name
	}
	return "", ""
}

func apiServiceMissing(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 || !l.use(APIServices) {
		return
	}
	l.use(HPAs)
	for _, r := range registrations {
		name := r.version + "." + r.group
		if l.registered(r.version, r.group) != nil || groupMeant(adapters, r.group) == no {
			continue
		}
		users := asking(l.f.HPAs, r.group)
		finding := Finding{
			Object: "APIService " + name, Seen: "it does not exist, and " + adapters[0].Object() + " is",
			Fix:      "Reinstall the adapter's registration.",
			Commands: []string{l.install(adapters[0], "adapter.yaml"), l.kubectl("get", "apiservice", name)},
		}
		if len(users) > 0 {
			finding.Seen += "; used by HPA " + named(users)
		}
		sister := r.group == groupCustom && (l.registered("v1beta1", groupCustom) != nil || l.registered("v1beta2", groupCustom) != nil)
		switch {
		case sister:
			finding.Means = "the other version of the group answers; only v1beta2 takes a metric's own selector"
			l.warn(finding)
		case len(users) > 0, groupMeant(adapters, r.group) == yes:
			l.fault(finding)
		default:
			finding.Fix = "If HPAs are to use this group, reinstall the adapter's registration."
			l.warn(finding)
		}
	}
}

// available returns the condition, nil where there is none yet.
func available(a *apiService) *apiregistrationv1.APIServiceCondition {
	for i := range a.Status.Conditions {
		if a.Status.Conditions[i].Type == apiregistrationv1.Available {
			return &a.Status.Conditions[i]
		}
	}
	return nil
}

// trouble is why an APIService is not available.
type trouble int

const (
	fine trouble = iota
	noService
	noEndpoints
	wrongPort
	badCertificate
	otherwise
)

// troubleOf reads the API server's condition, and the Service behind it.
func (l *look) troubleOf(a *apiService) trouble {
	ref := a.Spec.Service
	c := available(a)
	known := l.has(Services)
	var service *corev1.Service
	if ref != nil && known {
		service = l.service(ref.Namespace, ref.Name)
	}
	// A Service that is a name of something outside has no endpoints, and needs none.
	inside := service != nil && service.Spec.Type != corev1.ServiceTypeExternalName
	switch {
	case ref != nil && known && service == nil, c != nil && c.Reason == "ServiceNotFound":
		return noService
	case c != nil && c.Status == apiregistrationv1.ConditionTrue:
		return fine
	case c != nil && c.Reason == "ServicePortError":
		return wrongPort
	case c != nil && (c.Reason == "MissingEndpoints" || c.Reason == "EndpointsNotFound"), inside && l.has(EndpointSlices) && l.ready(ref.Namespace, ref.Name) == 0:
		return noEndpoints
	case c != nil && (strings.Contains(c.Message, "x509:") || strings.Contains(c.Message, "tls:")):
		return badCertificate
	}
	return otherwise
}

// ready counts the endpoints of a Service that take requests.
func (l *look) ready(namespace, service string) int {
	l.declared(EndpointSlices)
	n := 0
	for _, s := range l.f.EndpointSlices {
		if s.Namespace != namespace || s.Labels["kubernetes.io/service-name"] != service {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n += len(e.Addresses)
			}
		}
	}
	return n
}

// stated is the API server's condition of an APIService.
func stated(a *apiService) string {
	c := available(a)
	if c == nil {
		return "the API server has no condition Available for it yet"
	}
	return fmt.Sprintf("Available=%s, %s: %s", c.Status, c.Reason, c.Message)
}

// refused reports whether the API server's condition has one of Go's errors about the
// adapter's certificate. It is the only source: doctor connects to no pod.
func refused(a *apiService, words ...string) bool {
	c := available(a)
	return c != nil && c.Status != apiregistrationv1.ConditionTrue && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.Message, w) })
}

// expired is Go's error for a certificate outside its validity, on either side.
func expired(a *apiService) bool { return refused(a, "certificate has expired or is not yet valid") }

// early is the same of a certificate that is not yet valid.
func early(a *apiService) bool { return expired(a) && refused(a, " is before ") }

// misnamed is a certificate for another name than the Service's.
func misnamed(a *apiService) bool {
	return refused(a, "x509: certificate is valid for", "x509: certificate is not valid for any names", "legacy Common Name field")
}

func apiServiceUnavailable(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 {
		return
	}
	l.use(EndpointSlices)
	for _, a := range l.mine(adapters) {
		if l.ownerOf(a, adapters) == us && l.troubleOf(a) == otherwise {
			p := adapters[0]
			l.fault(Finding{
				Object: "APIService " + a.Name, Seen: stated(a),
				Fix: "Check the adapter's log; where it is healthy, check whether the API server reaches its Service (a NetworkPolicy or firewall in between, or adapter.hostNetwork).",
				Commands: []string{
					l.in(p.Namespace, "logs", p.Ref(), "--tail=50"),
					l.kubectl("get", "--raw", "/apis/"+a.Spec.Group+"/"+a.Spec.Version),
				},
			})
		}
	}
}

func apiServiceOwner(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 || !l.use(APIServices) {
		return
	}
	l.use(Services)
	l.use(HPAs)
	for _, a := range l.f.APIServices {
		if !IsMetrics(a.Spec.Group) || l.ownerOf(a, adapters) != other || groupMeant(adapters, a.Spec.Group) == no {
			continue
		}
		who := "the API server itself"
		if a.Spec.Service != nil {
			who = "Service " + a.Spec.Service.Namespace + "/" + a.Spec.Service.Name
		}
		finding := Finding{
			Object: "APIService " + a.Name, Seen: "spec.service is " + who + ", not our adapter's",
			Fix:      "A group has one server. Give it to the adapter and let it pass on unknown metrics (docs/adapter-security.md), or exclude it with adapter.apis.",
			Commands: []string{l.kubectl("get", "apiservice", a.Name, "-o", "yaml"), l.take(a, adapters[0])},
		}
		if isOurs(a.Labels) || groupMeant(adapters, a.Spec.Group) == yes || l.split(a, adapters) || len(asking(l.f.HPAs, a.Spec.Group, signals...)) > 0 {
			if users := asking(l.f.HPAs, a.Spec.Group, signals...); len(users) > 0 {
				finding.Seen += "; our signals are used by HPA " + named(users)
			}
			l.fault(finding)
			continue
		}
		finding.Fix = "None if this is intended. " + finding.Fix
		l.warn(finding)
	}
}

// take writes the command that gives an APIService to the adapter, with the CA of its
// certificate. Only for one that ours has made.
func (l *look) take(a *apiService, p Program) string {
	if !isOurs(a.Labels) {
		return ""
	}
	port := int32(443)
	for _, b := range l.f.APIServices {
		if b.Spec.Service != nil && b.Spec.Service.Name == p.Name && b.Spec.Service.Namespace == p.Namespace && b.Spec.Service.Port != nil {
			port = *b.Spec.Service.Port
		}
	}
	return l.register(a, p, fmt.Sprintf(`"service":{"namespace":%q,"name":%q,"port":%d},`, p.Namespace, p.Name, port))
}

// register writes the command that puts fields, and the authority in the adapter's
// Secret, into an APIService. Where cert-manager injects the CA, it does.
func (l *look) register(a *apiService, p Program, fields string) string {
	patch := l.kubectl("patch", "apiservice", a.Name, "--type=merge", "-p")
	if a.Annotations[injectCA] != "" {
		return l.kubectl("patch", "apiservice", a.Name, "--type=merge", "-p", `{"spec":{`+fields+`"insecureSkipTLSVerify":false}}`)
	}
	if p.Secret == "" { // the adapter itself puts it there, into what leads to it
		return l.kubectl("patch", "apiservice", a.Name, "--type=merge", "-p", `{"spec":{`+fields+`"insecureSkipTLSVerify":false}}`)
	}
	read := l.in(p.Namespace, "get", "secret", p.Secret, "-o", `jsonpath={.data.ca\.crt}`)
	if patch == "" || read == "" {
		return ""
	}
	// The shell substitutes base64 between the quotes.
	return patch + " " + quote(`{"spec":{`+fields+`"insecureSkipTLSVerify":false,"caBundle":"`) + `"$(` + read + `)"` + quote(`"}}`)
}

// injectCA is cert-manager's annotation.
const injectCA = "cert-manager.io/inject-ca-from"

// split reports whether another version of the group is our adapter's.
func (l *look) split(a *apiService, adapters []Program) bool {
	for _, b := range l.f.APIServices {
		if b.Spec.Group == a.Spec.Group && b.Name != a.Name && l.ownerOf(b, adapters) == us {
			return true
		}
	}
	return false
}

// signals of the adapter without configuration. TestSignals compares them with the
// adapter's own.
var signals = []string{"gpu_busy", "gpu_share", "gpu_memory_used_ratio", "queue_depth", "requests_running", "kv_cache_usage",
	"ttft_p95", "queue_time_p95", "queue_time_mean", "gpu_tensor_active", "gpu_dram_active"}

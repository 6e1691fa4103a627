package doctor

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/cert"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// soon is how long before its expiry a certificate is reported.
const soon = 30 * 24 * time.Hour

// registration checks the way from each of our APIServices to the adapter.
func registration(l *look) {
	r := registered(l)
	reported := map[string]bool{} // each Service is reported once
	for _, a := range r.ours {
		f := firstFault(l, a, adapterOf(l, a, r.adapters))
		if f.Severity != "" && !reported[f.Object] {
			reported[f.Object] = true
			l.findings = append(l.findings, f)
		}
	}
}

// firstFault looks for the first fault on the way from an APIService to the adapter. Without a fault the
// finding has no severity.
func firstFault(l *look, a *apiService, p Program) Finding {
	ref, c := a.Spec.Service, available(a)
	if c == nil {
		c = &apiregistrationv1.APIServiceCondition{}
	}
	service := find(Services.in(l), ref.Namespace, ref.Name)
	bundle, unreadable := cert.ParseCertsPEM(a.Spec.CABundle)
	how, commands := reissue(l, a, p)
	f := Finding{Severity: Fault, Object: "APIService " + a.Name, Seen: stated(a)}
	well := c.Status == apiregistrationv1.ConditionTrue
	switch {
	case service == nil, c.Reason == "ServiceNotFound":
		f.Seen = "spec.service is " + ref.Namespace + "/" + ref.Name + ", and there is no such Service"
		f.Fix = "Create the Service again, or let the APIService lead to the adapter's Service."
		if f.Commands = []string{l.install(p, "adapter.yaml")}; find(Services.in(l), p.Namespace, p.Name) != nil {
			f.Commands = []string{takeover(l, a, p)}
		}
	case !well && c.Reason == "ServicePortError":
		f.Fix, f.Commands = "Set spec.service.port to a port of the Service.", []string{portOf(l.commands, a, service)}
	case !well && (c.Reason == "MissingEndpoints" || c.Reason == "EndpointsNotFound" || !hasEndpoint(l, service)):
		f = unreachable(l, service, p)
	case len(a.Spec.CABundle) > 0 && unreadable != nil:
		f.Seen = fmt.Sprintf("spec.caBundle cannot be read: %v", unreadable)
		f.Fix, f.Commands = "Put the CA of the adapter's certificate into spec.caBundle.", rebundle(l, a, p)
	case refused(a, "certificate has expired or is not yet valid"): // Go reports both cases with this error
		f.Fix, f.Commands = "Issue a new certificate. "+how, commands
		if refused(a, " is before ") {
			f.Means = "HPAs that use " + a.Spec.Group + " get no metrics until the certificate is valid."
			f.Fix = "Check the clocks of the control plane and of the certificate's issuer, and correct the wrong one (NTP). If both are right, issue a new certificate. " + how
		}
	case refused(a, "x509: certificate is valid for", "x509: certificate is not valid for any names", "legacy Common Name field"):
		f.Fix, f.Commands = fmt.Sprintf("Issue a certificate for the name %s.%s.svc. ", ref.Name, ref.Namespace)+how, commands
		if take := takeover(l, a, p); ref.Name != p.Name && take != "" {
			f.Fix, f.Commands = "The adapter's certificate is for its own Service "+p.Namespace+"/"+p.Name+": set that Service in spec.service.", []string{take}
		}
	case refused(a, "x509:", "tls:"):
		f.Fix, f.Commands = "spec.caBundle is not the CA of the adapter's certificate: replace it.", rebundle(l, a, p)
		if p.Secret == "" {
			f.Fix = "spec.caBundle is not the CA of the adapter's certificate. The adapter writes it within a minute if it may update this APIService: the command restores that permission."
		}
	case !well:
		f.Fix = "Read the adapter's log. If the adapter is healthy, the API server does not reach it: check NetworkPolicies and firewalls, or set adapter.hostNetwork."
		f.Commands = []string{l.logs(p), l.kubectl("get", "--raw", "/apis/"+a.Spec.Group+"/"+a.Spec.Version)}
	case a.Spec.InsecureSkipTLSVerify:
		f.Severity, f.Seen = Warning, "spec.insecureSkipTLSVerify is true"
		f.Means = "The API server does not verify the adapter: any server at the Service's address can give HPAs any value."
		f.Fix, f.Commands = "Put the CA of the adapter's certificate into spec.caBundle.", rebundle(l, a, p)
	case unreadable != nil: // there is no CA bundle
		f.Severity = ""
	default:
		// The API server reports a CA that is not valid now. A bundle is valid while one of its certificates is.
		until := slices.MaxFunc(bundle, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if f.Severity = ""; until.Before(l.Now.Add(soon)) {
			f.Severity, f.Seen = Warning, "the CA in spec.caBundle expires on "+until.UTC().Format(time.DateOnly)
		}
		f.Means = "From that day on, HPAs get no metrics from the adapter and do not scale."
		f.Fix, f.Commands = "Issue a new certificate. "+how, commands
	}
	return f
}

// unreachable returns the finding about a Service without ready endpoints.
func unreachable(l *look, service *corev1.Service, p Program) Finding {
	f := Finding{
		Severity: Fault, Object: "Service " + service.Namespace + "/" + service.Name,
		Seen:     fmt.Sprintf("the Service has no ready endpoint; %s has %d of %d replicas ready%s", p.Object(), p.Ready, p.Wanted, notReady(l, "adapter", "")),
		Fix:      "Check why the adapter's pods are not ready.",
		Commands: []string{l.in(p.Namespace, "describe", p.Ref()), l.logs(p)},
	}
	switch {
	case !selects(service, p):
		f.Seen += fmt.Sprintf("; spec.selector %s does not match the labels of the adapter's pods", labels.Set(service.Spec.Selector))
		f.Fix = "Change spec.selector so that it matches the adapter's pods."
		f.Commands = []string{reselect(l.commands, service, p)}
	case p.Wanted == 0:
		f.Fix = "The adapter is scaled to 0 replicas: scale it up."
		f.Commands = append([]string{l.in(p.Namespace, "scale", p.Ref(), "--replicas=2")}, f.Commands...)
	}
	return f
}

// reselect writes the command that makes a Service select exactly a program's pods.
func reselect(c commands, s *corev1.Service, p Program) string {
	selector, err := json.Marshal(cmp.Or(p.Selector, &metav1.LabelSelector{}).MatchLabels)
	if err != nil {
		return ""
	}
	return c.in(s.Namespace, "patch", "service", s.Name, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/selector","value":%s}]`, selector))
}

// portOf writes the command that sets the port in the APIService. If the port is uncertain, the command shows the
// Service's ports.
func portOf(c commands, a *apiService, s *corev1.Service) string {
	if port := httpsPort(s); port != 0 {
		return c.patch("", "apiservice", a.Name, fmt.Sprintf(`{"spec":{"service":{"port":%d}}}`, port))
	}
	return c.in(s.Namespace, "get", "service", s.Name, "-o", "jsonpath={.spec.ports}")
}

// httpsPort returns a Service's only port or the one that is named https, or 0.
func httpsPort(s *corev1.Service) int32 {
	for _, port := range s.Spec.Ports {
		if port.Name == "https" || len(s.Spec.Ports) == 1 {
			return port.Port
		}
	}
	return 0
}

// reissue says how the issuer issues the adapter's certificate again, and returns the commands. A user's own
// certificate is only shown, not deleted: only the user can issue another.
func reissue(l *look, a *apiService, p Program) (how string, commands []string) {
	switch {
	case p.Secret == "":
		return "The adapter issues its certificate when it starts, if it may update this APIService: the first command restores that permission, the second restarts the adapter.",
			[]string{l.install(p, "adapter.yaml"), l.in(p.Namespace, "rollout", "restart", p.Ref())}
	case a.Annotations[injectCA] != "":
		return "cert-manager issues it again after its Secret is deleted.", []string{l.in(p.Namespace, "delete", "secret", p.Secret)}
	case byServiceCA(l, p):
		return "OpenShift's service CA issues it again after its Secret is deleted.", []string{l.in(p.Namespace, "delete", "secret", p.Secret)}
	}
	return "The certificate in Secret " + p.Secret + " is your own: have its issuer issue another.", []string{l.in(p.Namespace, "describe", "secret", p.Secret)}
}

// rebundle writes the command that puts the CA into an APIService.
func rebundle(l *look, a *apiService, p Program) []string {
	injected := a.Annotations[injectServiceCA] == "true"
	switch {
	case a.Annotations[injectCA] != "":
		return []string{l.in("cert-manager", "rollout", "restart", "deployment/cert-manager-cainjector")}
	case injected && !a.Spec.InsecureSkipTLSVerify:
		return []string{l.in("openshift-service-ca", "rollout", "restart", "deployment/service-ca")}
	case injected, byServiceCA(l, p):
		return []string{l.patch("", "apiservice", a.Name, `{"metadata":{"annotations":{"`+injectServiceCA+`":"true"}},"spec":{"insecureSkipTLSVerify":false}}`)}
	}
	if line := register(l.commands, a, p, ""); line != "" && (p.Secret != "" || a.Spec.InsecureSkipTLSVerify) {
		return []string{line}
	}
	return []string{l.install(p, "adapter.yaml")}
}

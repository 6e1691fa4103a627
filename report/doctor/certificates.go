package doctor

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/cert"
)

// soon is how long before its end a certificate is reported.
const soon = 30 * 24 * time.Hour

func apiServiceCA(l *look) {
	all, adapters := l.registered(true)
	reported := map[string]bool{}
	for _, a := range all {
		p := adapters[0]
		service := a.Spec.Service.Namespace + "/" + a.Spec.Service.Name
		f := Finding{Object: "APIService " + a.Name}
		switch l.troubleOf(a) {
		case noService:
			f.Seen = "spec.service " + service + " is not there"
			f.Fix = "Recreate the Service, or point the APIService at the adapter's."
			if f.Commands = []string{l.install(p, "adapter.yaml")}; l.service(p.Namespace, p.Name) != nil {
				f.Commands = []string{l.take(a, p)}
			}
			l.fault(f)
		case noEndpoints:
			if !reported[service] {
				reported[service] = true
				l.unreachable(service, l.service(a.Spec.Service.Namespace, a.Spec.Service.Name), p)
			}
		case wrongPort:
			f.Seen, f.Fix, f.Commands = stated(a), "Name the port that the Service has.", []string{l.portOf(a)}
			l.fault(f)
		case badCertificate, fine, otherwise:
			l.bundle(a, p, f)
		}
	}
}

// unreachable is a Service without ready endpoints.
func (l *look) unreachable(name string, service *corev1.Service, p Program) {
	f := Finding{
		Object:   "Service " + name,
		Seen:     fmt.Sprintf("it has no ready endpoint; %s has %d of %d replicas ready%s", p.Object(), p.Ready, p.Wanted, l.why("adapter", "")),
		Fix:      "Check why the adapter's pods are not ready.",
		Commands: []string{l.in(p.Namespace, "describe", p.Ref()), l.logs(p)},
	}
	switch {
	case service != nil && !selects(service, p):
		f.Seen += fmt.Sprintf("; spec.selector %s does not match the labels of its pods", labels.Set(service.Spec.Selector))
		f.Fix = "Have the Service select the adapter's pods."
		f.Commands = []string{l.reselect(service, p)}
	case p.Wanted == 0:
		f.Fix = "The adapter is scaled to 0: scale it up."
		f.Commands = append([]string{l.in(p.Namespace, "scale", p.Ref(), "--replicas=2")}, f.Commands...)
	}
	l.fault(f)
}

// reselect writes the command that has a Service select exactly a program's pods.
func (l *look) reselect(s *corev1.Service, p Program) string {
	selector := map[string]any{}
	for name := range s.Spec.Selector {
		selector[name] = nil
	}
	if p.Selector != nil {
		for name, v := range p.Selector.MatchLabels {
			selector[name] = v
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": selector}})
	if err != nil {
		return ""
	}
	return l.patch(s.Namespace, "service", s.Name, string(patch))
}

// expired is Go's error for a certificate outside its validity, on either side.
func expired(a *apiService) bool { return refused(a, "certificate has expired or is not yet valid") }

// bundle checks the CA that an APIService names. What has expired is adapter-certificate's.
func (l *look) bundle(a *apiService, p Program, f Finding) {
	_, err := cert.ParseCertsPEM(a.Spec.CABundle)
	// A certificate for another name than the Service's.
	misnamed := refused(a, "x509: certificate is valid for", "x509: certificate is not valid for any names", "legacy Common Name field")
	f.Seen, f.Commands = stated(a), l.rebundle(a, p)
	switch {
	case a.Spec.InsecureSkipTLSVerify:
		f.Seen = "spec.insecureSkipTLSVerify is true"
		f.Means = "any server at the Service's address can send HPAs any value"
		f.Fix = "Put the CA of the adapter's certificate into spec.caBundle."
		l.warn(f)
		return
	case expired(a):
		return
	case len(a.Spec.CABundle) > 0 && err != nil:
		f.Seen = fmt.Sprintf("spec.caBundle cannot be read: %v", err)
		f.Fix = "Put the CA of the adapter's certificate there."
	case misnamed && a.Spec.Service.Name != p.Name && l.take(a, p) != "":
		f.Fix = "The adapter's certificate is for its own Service: name that one, " + p.Namespace + "/" + p.Name + "."
		f.Commands = []string{l.take(a, p)}
	case misnamed:
		how, commands := l.reissue(a, p)
		f.Fix = fmt.Sprintf("Make a certificate for %s.%s.svc. ", a.Spec.Service.Name, a.Spec.Service.Namespace) + how
		f.Commands = commands
	case l.troubleOf(a) == badCertificate && p.Secret == "":
		f.Fix = "spec.caBundle is not the CA of the adapter's certificate. The adapter puts it there within a minute if it has the right to update this APIService, which an upgrade restores."
	case l.troubleOf(a) == badCertificate:
		f.Fix = "spec.caBundle is not the CA of the adapter's certificate: put the CA there."
	default:
		return
	}
	l.fault(f)
}

// portOf writes the command that names the Service's port; where it has several and none
// of them is https, one that shows them.
func (l *look) portOf(a *apiService) string {
	s := l.service(a.Spec.Service.Namespace, a.Spec.Service.Name)
	if s == nil {
		return ""
	}
	for _, port := range s.Spec.Ports {
		if port.Name == "https" || len(s.Spec.Ports) == 1 {
			return l.patch("", "apiservice", a.Name, fmt.Sprintf(`{"spec":{"service":{"port":%d}}}`, port.Port))
		}
	}
	return l.in(s.Namespace, "get", "service", s.Name, "-o", "jsonpath={.spec.ports}")
}

// reissue says how the adapter's certificate is issued again by its issuer, and has the
// commands. A user's own certificate is shown, not deleted: only the user can issue another.
func (l *look) reissue(a *apiService, p Program) (how string, commands []string) {
	switch {
	case p.Secret == "":
		return "The adapter issues its own when it starts, and needs the right to update this APIService, which an upgrade restores.",
			[]string{l.install(p, "adapter.yaml"), l.in(p.Namespace, "rollout", "restart", p.Ref())}
	case a.Annotations[injectCA] != "":
		return "cert-manager issues it again once its Secret is deleted.", []string{l.in(p.Namespace, "delete", "secret", p.Secret)}
	}
	return "It is your own (Secret " + p.Secret + "): its issuer has to issue another.", []string{l.in(p.Namespace, "describe", "secret", p.Secret)}
}

// rebundle writes the command that puts the CA into an APIService.
func (l *look) rebundle(a *apiService, p Program) []string {
	if a.Annotations[injectCA] != "" {
		return []string{l.in("cert-manager", "rollout", "restart", "deployment/cert-manager-cainjector")}
	}
	if c := l.register(a, p, ""); c != "" && (p.Secret != "" || a.Spec.InsecureSkipTLSVerify) {
		return []string{c}
	}
	return []string{l.install(p, "adapter.yaml")}
}

// validity is the time in which at least one certificate of a bundle is valid.
func validity(all []*x509.Certificate) (from, until time.Time) {
	return slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }).NotBefore,
		slices.MaxFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

func adapterCertificate(l *look) {
	all, adapters := l.registered(true)
	for _, a := range all {
		how, commands := l.reissue(a, adapters[0])
		f := Finding{Object: "APIService " + a.Name, Seen: stated(a), Fix: "Issue a new one. " + how, Commands: commands}
		early := "HPAs that use " + a.Spec.Group + " get no answer until the certificate is valid"
		if expired(a) {
			if refused(a, " is before ") {
				f.Means = early
				f.Fix = "The clock of the control plane, or of the certificate's issuer, is wrong: set both (NTP). Where the clocks are right, issue a new one. " + how
			}
			l.fault(f)
			continue
		}
		bundle, err := cert.ParseCertsPEM(a.Spec.CABundle)
		if err != nil {
			continue // reported by apiservice-ca; without a bundle there is nothing to read here
		}
		switch from, until := validity(bundle); {
		case from.After(l.f.Now.Add(skewed)):
			f.Seen, f.Means = "the CA in spec.caBundle is not valid before "+from.UTC().Format(time.RFC3339), early
			l.fault(f)
		case !until.After(l.f.Now):
			f.Seen = "the CA in spec.caBundle expired on " + until.UTC().Format(time.DateOnly)
			l.fault(f)
		case until.Before(l.f.Now.Add(soon)):
			f.Seen = "the CA in spec.caBundle expires on " + until.UTC().Format(time.DateOnly)
			l.warn(f)
		}
	}
}

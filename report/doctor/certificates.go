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

// lasts returns the end of the last of them: a bundle is valid while one is.
func lasts(all []*x509.Certificate) time.Time {
	return slices.MaxFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}

// begins returns the start of the first of them.
func begins(all []*x509.Certificate) time.Time {
	return slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }).NotBefore
}

func apiServiceCA(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 {
		return
	}
	l.use(EndpointSlices)
	reported := map[string]bool{}
	for _, a := range l.mine(adapters) {
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
				l.unreachable(a, p)
			}
		case wrongPort:
			f.Seen = stated(a)
			f.Fix = "Name the port that the Service has."
			f.Commands = []string{l.portOf(a)}
			l.fault(f)
		case badCertificate, fine, otherwise:
			l.bundle(a, p, f)
		}
	}
}

// unreachable is a Service without ready endpoints.
func (l *look) unreachable(a *apiService, p Program) {
	ref := a.Spec.Service
	f := Finding{
		Object: "Service " + ref.Namespace + "/" + ref.Name,
		Seen:   fmt.Sprintf("it has no ready endpoint; %s has %d of %d replicas ready%s", p.Object(), p.Ready, p.Wanted, l.why("adapter", "")),
		Fix:    "Check why the adapter's pods are not ready.",
	}
	logs := []string{l.in(p.Namespace, "describe", p.Ref()), l.in(p.Namespace, "logs", p.Ref(), "--tail=50")}
	service := l.service(ref.Namespace, ref.Name)
	switch {
	case service != nil && !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(p.PodLabels)):
		f.Seen += fmt.Sprintf("; spec.selector %s does not match the labels of its pods", labels.Set(service.Spec.Selector))
		f.Fix = "Have the Service select the adapter's pods."
		f.Commands = []string{l.reselect(service, p)}
	case p.Wanted == 0:
		f.Fix = "The adapter is scaled to 0: scale it up."
		f.Commands = append([]string{l.in(p.Namespace, "scale", p.Ref(), "--replicas=2")}, logs...)
	default:
		f.Commands = logs
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

// bundle checks the CA that an APIService names.
func (l *look) bundle(a *apiService, p Program, f Finding) {
	_, err := cert.ParseCertsPEM(a.Spec.CABundle)
	switch {
	case a.Spec.InsecureSkipTLSVerify:
		f.Seen = "spec.insecureSkipTLSVerify is true"
		f.Means = "any server at the Service's address can send HPAs any value"
		f.Fix = "Put the CA of the adapter's certificate into spec.caBundle."
		f.Commands = l.rebundle(a, p)
		l.warn(f)
	case expired(a):
		// reported by adapter-certificate
	case len(a.Spec.CABundle) > 0 && err != nil:
		f.Seen = fmt.Sprintf("spec.caBundle cannot be read: %v", err)
		f.Fix = "Put the CA of the adapter's certificate there."
		f.Commands = l.rebundle(a, p)
		l.fault(f)
	case misnamed(a) && a.Spec.Service.Name != p.Name && l.take(a, p) != "":
		f.Seen = stated(a)
		f.Fix = "The adapter's certificate is for its own Service: name that one, " + p.Namespace + "/" + p.Name + "."
		f.Commands = []string{l.take(a, p)}
		l.fault(f)
	case misnamed(a):
		f.Seen = stated(a)
		f.Fix = fmt.Sprintf("Make a certificate for %s.%s.svc. ", a.Spec.Service.Name, a.Spec.Service.Namespace) + reissuing(a, p)
		f.Commands = l.reissue(a, p)
		l.fault(f)
	case l.troubleOf(a) == badCertificate:
		f.Seen = stated(a)
		f.Fix = "spec.caBundle is not the CA of the adapter's certificate: put the CA there."
		if p.Secret == "" {
			f.Fix = "spec.caBundle is not the CA of the adapter's certificate. The adapter puts it there within a minute if it has the right to update this APIService, which an upgrade restores."
		}
		f.Commands = l.rebundle(a, p)
		l.fault(f)
	}
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
			return l.kubectl("patch", "apiservice", a.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"service":{"port":%d}}}`, port.Port))
		}
	}
	return l.in(s.Namespace, "get", "service", s.Name, "-o", "jsonpath={.spec.ports}")
}

// reissue writes the commands that have the adapter's certificate issued again by its
// issuer. A user's own certificate is shown, not deleted: only the user can issue
// another.
func (l *look) reissue(a *apiService, p Program) []string {
	switch {
	case p.Secret == "":
		return []string{l.install(p, "adapter.yaml"), l.in(p.Namespace, "rollout", "restart", p.Ref())}
	case a.Annotations[injectCA] != "":
		return []string{l.in(p.Namespace, "delete", "secret", p.Secret)}
	}
	return []string{l.in(p.Namespace, "describe", "secret", p.Secret)}
}

// reissuing describes reissue's commands.
func reissuing(a *apiService, p Program) string {
	switch {
	case p.Secret == "":
		return "The adapter issues its own when it starts, and needs the right to update this APIService, which an upgrade restores."
	case a.Annotations[injectCA] != "":
		return "cert-manager issues it again once its Secret is deleted."
	}
	return "It is your own (Secret " + p.Secret + "): its issuer has to issue another."
}

// rebundle writes the command that puts the CA into an APIService.
func (l *look) rebundle(a *apiService, p Program) []string {
	if a.Annotations[injectCA] != "" {
		return []string{l.kubectl("-n", "cert-manager", "rollout", "restart", "deployment/cert-manager-cainjector")}
	}
	if c := l.register(a, p, ""); c != "" && (p.Secret != "" || a.Spec.InsecureSkipTLSVerify) {
		return []string{c}
	}
	return []string{l.install(p, "adapter.yaml")}
}

func adapterCertificate(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 {
		return
	}
	for _, a := range l.mine(adapters) {
		p := adapters[0]
		f := Finding{Object: "APIService " + a.Name,
			Fix: "Issue a new one. " + reissuing(a, p), Commands: l.reissue(a, p)}
		all, err := cert.ParseCertsPEM(a.Spec.CABundle)
		switch {
		case early(a):
			f.Seen = stated(a)
			f.Means = "HPAs that use " + a.Spec.Group + " get no answer until the certificate is valid"
			f.Fix = "The clock of the control plane, or of the certificate's issuer, is wrong: set both (NTP). Where the clocks are right, issue a new one. " + reissuing(a, p)
			l.fault(f)
		case expired(a):
			f.Seen = stated(a)
			l.fault(f)
		case err != nil:
			// reported by apiservice-ca; without a bundle there is nothing to read here
		case begins(all).After(l.f.Now.Add(skewed)):
			f.Seen = "the CA in spec.caBundle is not valid before " + begins(all).UTC().Format(time.RFC3339)
			f.Means = "HPAs that use " + a.Spec.Group + " get no answer until the certificate is valid"
			l.fault(f)
		case !lasts(all).After(l.f.Now):
			f.Seen = "the CA in spec.caBundle expired on " + lasts(all).UTC().Format(time.DateOnly)
			l.fault(f)
		case lasts(all).Before(l.f.Now.Add(soon)):
			f.Seen = "the CA in spec.caBundle expires on " + lasts(all).UTC().Format(time.DateOnly)
			l.warn(f)
		}
	}
}

func adapterRights(l *look) {
	adapters := l.adapters()
	if len(adapters) == 0 {
		return
	}
	cluster, roles := l.use(ClusterRoleBindings), l.use(RoleBindings)
	for _, p := range adapters {
		account := p.Namespace + "/" + p.ServiceAccount
		means := "the adapter cannot authenticate callers at the API server, and refuses all of them"
		if cluster && !l.boundCluster(p) {
			l.fault(Finding{
				Object: "ServiceAccount " + account, Seen: "no ClusterRoleBinding gives it the ClusterRole system:auth-delegator", Means: means,
				Fix: "Bind the role.",
				Commands: []string{l.kubectl("create", "clusterrolebinding", p.Name+"-auth-delegator", "--clusterrole=system:auth-delegator",
					"--serviceaccount="+p.Namespace+":"+p.ServiceAccount)},
			})
		}
		if roles && !l.boundReader(p) {
			l.fault(Finding{
				Object: "ServiceAccount " + account, Seen: "no RoleBinding in kube-system gives it the Role extension-apiserver-authentication-reader",
				Means: "the adapter has no CA of the API server's front proxy: it does not start, or treats requests as anonymous",
				Fix:   "Bind the role.",
				Commands: []string{l.in("kube-system", "create", "rolebinding", p.Name+"-authentication-reader", "--role=extension-apiserver-authentication-reader",
					"--serviceaccount="+p.Namespace+":"+p.ServiceAccount)},
			})
		}
	}
}

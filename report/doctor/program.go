package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Program is a Deployment or DaemonSet of ours.
type Program struct {
	Kind string // "Deployment" or "DaemonSet"
	metav1.ObjectMeta
	PodLabels      map[string]string
	ServiceAccount string
	Args           []string // its containers' commands and arguments
	// ConfigMap is the name of its configuration and Secret that of its certificate; empty if it mounts none.
	ConfigMap, Secret string
	// Wanted and Ready count replicas; for a DaemonSet, nodes.
	Wanted, Ready int32
	Selector      *metav1.LabelSelector
}

// Object is the kind, namespace and name, for messages.
func (p Program) Object() string { return p.Kind + " " + p.Namespace + "/" + p.Name }

// Ref is its name on kubectl's command line.
func (p Program) Ref() string { return strings.ToLower(p.Kind) + "/" + p.Name }

// names lists our programs that run in a cluster.
var names = []string{"exporter", "adapter", "autoscaler", "agent"}

// labels by which the chart, and most other installations, mark their objects.
const (
	labelName      = "app.kubernetes.io/name"
	labelPartOf    = "app.kubernetes.io/part-of"
	labelComponent = "app.kubernetes.io/component"
	partOf         = "gpuscale"
)

// Programs returns our programs of a name, sorted by kind and name.
func (f *Facts) Programs(name string) []Program {
	var out []Program
	add := func(p Program, t corev1.PodTemplateSpec) {
		if !f.here(p.Namespace) || !isProgram(name, p.Labels, t.Spec) {
			return
		}
		p.PodLabels, p.ServiceAccount = t.Labels, cmp.Or(t.Spec.ServiceAccountName, "default")
		for _, c := range t.Spec.Containers {
			p.Args = slices.Concat(p.Args, c.Command, c.Args)
		}
		for _, v := range t.Spec.Volumes {
			switch {
			case v.ConfigMap != nil && v.Name == "config":
				p.ConfigMap = v.ConfigMap.Name
			case v.Secret != nil && v.Name == "tls":
				p.Secret = v.Secret.SecretName
			}
		}
		out = append(out, p)
	}
	for _, d := range Deployments.Of(f) {
		add(Program{Kind: "Deployment", ObjectMeta: d.ObjectMeta, Selector: d.Spec.Selector, Wanted: orOne(d.Spec.Replicas), Ready: d.Status.ReadyReplicas}, d.Spec.Template)
	}
	for _, d := range DaemonSets.Of(f) {
		add(Program{Kind: "DaemonSet", ObjectMeta: d.ObjectMeta, Selector: d.Spec.Selector, Wanted: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady}, d.Spec.Template)
	}
	return out
}

// orOne is a number of replicas, or 1 if none is stated.
func orOne(n *int32) int32 { return *cmp.Or(n, new(int32(1))) }

func (f *Facts) here(namespace string) bool { return f.Namespace == "" || f.Namespace == namespace }

// isProgram reports whether labels or an image identify a program of ours.
func isProgram(name string, labels map[string]string, spec corev1.PodSpec) bool {
	if labels[labelName] == partOf+"-"+name || labels[labelPartOf] == partOf && labels[labelComponent] == name {
		return true
	}
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return image(c.Image) == partOf+"-"+name })
}

// image returns an image's name without registry, tag and digest.
func image(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	ref = ref[strings.LastIndexByte(ref, '/')+1:]
	ref, _, _ = strings.Cut(ref, ":")
	return ref
}

// anyProgram reports whether any program of ours is in the namespace.
func (f *Facts) anyProgram() bool {
	return slices.ContainsFunc(names, func(name string) bool { return len(f.Programs(name)) > 0 })
}

// installed reports whether anything of gpuscale exists.
func (f *Facts) installed() bool {
	return f.anyProgram() || slices.ContainsFunc(APIServices.Of(f), func(a *apiService) bool { return isOurs(a.Labels) }) ||
		slices.ContainsFunc(names, f.scraped) || len(Pools.Of(f))+len(GPUQuotas.Of(f))+len(CRDs.Of(f)) > 0
}

func isOurs(labels map[string]string) bool {
	return labels[labelPartOf] == partOf || strings.HasPrefix(labels[labelName], partOf+"-")
}

// nothing is the message for a cluster without gpuscale. It is "" if gpuscale exists, or if that is unknown.
func (f *Facts) nothing() string {
	if slices.ContainsFunc(from(Deployments, DaemonSets, APIServices), func(s *Source) bool { return f.Missing[s] != "" }) {
		return ""
	}
	where := "any namespace"
	if f.Namespace != "" {
		where = "namespace " + clean(f.Namespace, maxName)
	}
	if f.installed() {
		if f.Namespace == "" || f.anyProgram() {
			return ""
		}
		return "No gpuscale program is in " + where + ", but gpuscale is installed elsewhere in this cluster: omit -n to find its namespace."
	}
	series := ""
	if _, answered := f.Answers[Builds]; answered {
		series = ", and no series of theirs in Prometheus"
	}
	return "gpuscale is not installed here: no Deployment or DaemonSet of its programs in " + where +
		" (by label " + labelName + " or image name), no APIService of its adapter, no GPUNodePool and no GPUQuota" + series +
		". docs/quick-start.md shows how to install it with an image and helm install."
}

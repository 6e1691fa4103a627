package doctor

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which Helm marks its objects.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// chartPath is where the documentation has the chart.
const chartPath = "deploy/chart/gpuscale"

// install writes the command that restores a program's objects, with values changed: by
// Helm where it made them, else from the manifests.
func (l *look) install(p Program, manifest string, set ...string) string {
	return l.installBy(p.Annotations, p.Managed, "deploy/manifests/"+manifest, set...)
}

// installBy is install for any object, by its metadata's manager.
func (l *look) installBy(annotations map[string]string, managed []metav1.ManagedFieldsEntry, file string, set ...string) string {
	release, namespace := annotations[helmRelease], annotations[helmNamespace]
	if release == "" || namespace == "" {
		if len(set) > 0 {
			return "" // manifests have no values
		}
		return l.kubectl("apply", "-f", file)
	}
	words := []string{"helm"}
	for _, w := range l.f.Kubectl {
		words = append(words, strings.Replace(w, "--context", "--kube-context", 1))
	}
	// Not --reuse-values: that keeps the defaults of the installed chart, without a
	// newer one's.
	words = append(words, "upgrade", release, chartPath, "--namespace", namespace, "--reset-then-reuse-values")
	if slices.ContainsFunc(managed, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "helm" && m.Operation == metav1.ManagedFieldsOperationApply
	}) {
		// Helm 4 applies on the server side, and yields to fields changed by hand, which
		// are to be undone here. Helm 3 has no such flag.
		words = append(words, "--force-conflicts")
	}
	for _, s := range set {
		words = append(words, "--set", s)
	}
	return command(words...)
}

// byHand reports whether a field's last writer is not Helm, by the object's managed fields.
func byHand(managed []metav1.ManagedFieldsEntry, field string) bool {
	return slices.ContainsFunc(managed, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != "helm" && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+field+`"`))
	})
}

// patch writes a merge patch of an object.
func (l *look) patch(namespace, resource, name, merge string) string {
	return l.in(namespace, "patch", resource, name, "--type=merge", "-p", merge)
}

// operator writes a command about objects of the Prometheus Operator; none without it.
func (l *look) operator(words ...string) string {
	if !l.has(Monitoring) || l.f.Absent[Monitoring] || len(l.f.Monitoring) == 0 {
		return ""
	}
	return l.kubectl(words...)
}

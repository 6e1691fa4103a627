package doctor

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which Helm says whose an object is.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// chartPath is where the documentation has the chart.
const chartPath = "deploy/chart/gpuscale"

// install writes the command that makes a program's objects anew as they were meant,
// with values changed: by Helm where that made them, else from the manifests.
func (l *look) install(p Program, manifest string, set ...string) string {
	return l.installBy(p.Annotations, p.Managed, "deploy/manifests/"+manifest, set...)
}

// installBy is install for any object, by what its metadata say of who made it.
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
	// Not --reuse-values: that takes the defaults of the chart that was installed, too,
	// and what a newer one has is not there.
	words = append(words, "upgrade", release, chartPath, "--namespace", namespace, "--reset-then-reuse-values")
	if slices.ContainsFunc(managed, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "helm" && m.Operation == metav1.ManagedFieldsOperationApply
	}) {
		// Helm 4 applies on the server's side, and gives way to who changed a field by
		// hand: here that is what is to be undone. Helm 3 does not know the flag.
		words = append(words, "--force-conflicts")
	}
	for _, s := range set {
		words = append(words, "--set", s)
	}
	return command(words...)
}

// byHand reports whether somebody other than Helm has written a field last, as far as
// the API server tells.
func byHand(managed []metav1.ManagedFieldsEntry, field string) bool {
	return slices.ContainsFunc(managed, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != "helm" && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.Raw, []byte(`"f:`+field+`"`))
	})
}

// patch writes a merge patch of an object.
func (l *look) patch(namespace, resource, name, merge string) string {
	return l.in(namespace, "patch", resource, name, "--type=merge", "-p", merge)
}

// operator writes a command about objects of the Prometheus Operator; none where it is
// not there.
func (l *look) operator(words ...string) string {
	if !l.has(Monitoring) || l.f.Absent[Monitoring] || len(l.f.Monitoring) == 0 {
		return ""
	}
	return l.kubectl(words...)
}

package doctor

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/text"
)

// Maximum lengths of untrusted text in the output.
const (
	maxText    = 600
	maxName    = 120
	maxCommand = 2000
)

// clean makes untrusted text safe to print: one line of at most limit characters.
func clean(words string, limit int) string {
	words = text.Line(words)
	if runes := []rune(words); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return words
}

// command joins words into a shell command. It returns "" if a word has invisible characters, which must not
// be pasted, or if the command is too long to review.
func command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if !utf8.ValidString(w) || strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return ""
		}
		quoted[i] = text.Quote(w)
	}
	line := strings.Join(quoted, " ")
	if len(line) > maxCommand {
		return ""
	}
	return line
}

// commands writes commands to paste. Its value is the flags that kubectl needs to reach the same cluster.
type commands []string

// kubectl writes a command for the cluster.
func (c commands) kubectl(words ...string) string {
	return command(slices.Concat([]string{"kubectl"}, c, words)...)
}

// in writes a command with a namespace; without one, the object is cluster-wide.
func (c commands) in(namespace string, words ...string) string {
	if namespace == "" {
		return c.kubectl(words...)
	}
	return c.kubectl(append([]string{"-n", namespace}, words...)...)
}

// patch writes a merge patch of an object.
func (c commands) patch(namespace, resource, name, merge string) string {
	return c.in(namespace, "patch", resource, name, "--type=merge", "-p", merge)
}

// logs writes the command that shows the logs of all of a program's pods. With the program's name in place of a
// selector, kubectl would show one pod, which may not be the leader.
func (c commands) logs(p Program) string {
	return c.in(p.Namespace, "logs", "-l", metav1.FormatLabelSelector(p.Selector), "--prefix", "--tail=50")
}

// where returns a command about kinds of the Prometheus Operator (separated by commas), or "" if the cluster
// lacks one of the kinds. VictoriaMetrics' operator reads its monitors too, without Prometheus or
// PrometheusRule objects.
func (l *look) where(kinds, command string) string {
	for kind := range strings.SplitSeq(kinds, ",") {
		if !includes(Monitoring.in(l), kind) {
			return ""
		}
	}
	return command
}

// includes reports whether an API has a kind.
func includes(all []*metav1.APIResource, kind string) bool {
	return slices.ContainsFunc(all, func(r *metav1.APIResource) bool { return r.Name == kind })
}

// operator writes a command that shows objects of these kinds, in a namespace, or in all with "-A" among
// words.
func (l *look) operator(namespace, kinds string, words ...string) string {
	return l.where(kinds, l.in(namespace, slices.Concat([]string{"get", kinds}, words)...))
}

// Annotations that Helm sets on its objects.
const (
	helmRelease   = "meta.helm.sh/release-name"
	helmNamespace = "meta.helm.sh/release-namespace"
)

// chartPath is the path of the chart in the documentation's commands.
const chartPath = "deploy/chart/gpuscale"

// install writes the command that restores a program's objects with the given values set: with Helm if Helm
// created them, else from the manifests.
func (c commands) install(p Program, manifest string, set ...string) string {
	return c.installFile(p, "deploy/manifests/"+manifest, set...)
}

func (c commands) installFile(p Program, file string, set ...string) string {
	release, namespace := p.Annotations[helmRelease], p.Annotations[helmNamespace]
	if release == "" || namespace == "" {
		if len(set) > 0 {
			return "" // the manifests have no values
		}
		return c.kubectl("apply", "-f", file)
	}
	words := []string{"helm"}
	for _, w := range c {
		words = append(words, strings.Replace(w, "--context", "--kube-context", 1))
	}
	// Not --reuse-values: it keeps the installed chart's defaults and ignores those of a newer chart.
	words = append(words, "upgrade", release, chartPath, "--namespace", namespace, "--reset-then-reuse-values")
	if slices.ContainsFunc(p.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "helm" && m.Operation == metav1.ManagedFieldsOperationApply
	}) {
		// Helm 4 applies on the server side and leaves fields that were changed by hand, which this command has to
		// undo. Helm 3 has no such flag.
		words = append(words, "--force-conflicts")
	}
	for _, s := range set {
		words = append(words, "--set", s)
	}
	return command(words...)
}

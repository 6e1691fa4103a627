package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Release, namespace and chart in the pages' install commands.
const pageRelease, pageNamespace, pageChart = "gpuscale", "gpuscale-system", "deploy/chart/gpuscale"

// installation is what the chart installs as the pages say, with everything enabled.
type installation struct {
	ports map[string][]string // ports of each object, by kind/name in lower case
	pods  map[string]bool     // key=value of the pods' labels
}

func installed(t *testing.T) installation {
	t.Helper()
	helm, err := chart.New(root(t))
	require.NoError(t, err)
	objects, err := helm.Template(t.Context(), chart.Release{Name: pageRelease, Namespace: pageNamespace, Values: chart.Everything})
	require.NoError(t, err)
	in := installation{map[string][]string{"lease/gpuscale-autoscaler": nil}, map[string]bool{}} // the autoscaler creates the Lease
	for _, o := range objects {
		ports := portsIn(o, "port", "spec", "ports")
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			ports = append(ports, portsIn(&unstructured.Unstructured{Object: c.(map[string]any)}, "containerPort", "ports")...)
		}
		in.ports[strings.ToLower(o.GetKind())+"/"+o.GetName()] = ports
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		for key, value := range labels {
			in.pods[key+"="+value] = true
		}
	}
	return in
}

func portsIn(o *unstructured.Unstructured, field string, at ...string) (out []string) {
	ports, _, _ := unstructured.NestedSlice(o.Object, at...)
	for _, p := range ports {
		out = append(out, fmt.Sprint(p.(map[string]any)[field]))
	}
	return out
}

// shortKinds maps kubectl's short and plural names to kinds.
var shortKinds = map[string]string{
	"deploy": "deployment", "deployments": "deployment", "ds": "daemonset", "daemonsets": "daemonset", "svc": "service", "services": "service", "cm": "configmap", "configmaps": "configmap",
	"sa": "serviceaccount", "cj": "cronjob", "leases": "lease", "jobs": "job", "pods": "pod",
}

// namedKinds are the kinds whose objects commands name.
var namedKinds = []string{"deployment", "daemonset", "service", "configmap", "serviceaccount", "cronjob", "lease", "clusterrole", "role", "apiservice", "secret", "job", "pod"}

// check returns an error if a kubectl command does not match the installation: objects called gpuscale…,
// their namespace, ports in port-forward, pod labels.
func (in installation) check(words []string) error {
	var problems []error
	at := max(slices.Index(words, "-n"), slices.Index(words, "--namespace"))
	if at > 0 && !slices.Contains(words[at:], pageNamespace) {
		return nil // another project's object, such as a ConfigMap with our boards in Grafana's namespace
	}
	object := func(kind, name string) {
		if full, ok := shortKinds[kind]; ok {
			kind = full
		}
		ports, ok := in.ports[kind+"/"+name]
		switch port := words[len(words)-1]; {
		case !slices.Contains(namedKinds, kind) || !strings.HasPrefix(name, pageRelease):
		case !ok:
			problems = append(problems, fmt.Errorf("the chart makes no %s %s", kind, name))
		case at < 0 && !slices.Contains([]string{"clusterrole", "apiservice"}, kind):
			problems = append(problems, fmt.Errorf("%s %s is in the namespace %s, which the command does not name", kind, name, pageNamespace))
		case slices.Contains(words, "port-forward") && !slices.Contains(ports, port[strings.LastIndexByte(port, ':')+1:]):
			problems = append(problems, fmt.Errorf("%s %s has no port %s, only %s", kind, name, port, strings.Join(ports, " ")))
		}
	}
	for i, word := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		kind, name, slash := strings.Cut(word, "/")
		role, isRole := strings.CutPrefix(word, "--clusterrole=")
		switch {
		case word == "-l" || word == "--selector":
			if strings.Contains(next, "=gpuscale-") && !in.pods[next] {
				problems = append(problems, fmt.Errorf("no pod has the label %s", next))
			}
		case isRole:
			object("clusterrole", role)
		case slash:
			object(kind, name)
		case !slices.Contains(words, "create"):
			object(word, next)
		}
	}
	return errors.Join(problems...)
}

// TestCommandsNameTheInstallation: objects, ports and labels of gpuscale in commands are those of the chart.
func TestCommandsNameTheInstallation(t *testing.T) {
	needPrograms(t)
	in, n := installed(t), 0
	check := func(text string) error {
		segments, err := Words(text)
		if err != nil {
			return nil // a here-document
		}
		var problems []error
		for _, words := range segments {
			if words[0] == "kubectl" {
				n++
				problems = append(problems, in.check(words))
			}
		}
		return errors.Join(problems...)
	}
	for name, page := range tree(t, ForUsers).Pages {
		for _, c := range commands(page) {
			if err := check(c.Text); err != nil {
				t.Errorf("%s:%d: %s: %v", name, c.Line, c.Text, err)
			}
		}
		for _, s := range page.Spans {
			if err := check(s.Text); err != nil {
				t.Errorf("%s:%d: %s: %v", name, s.Line, s.Text, err)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d commands were found", n)
	}
	for _, wrong := range []string{
		"kubectl -n gpuscale-system rollout status deploy/gpuscale", "kubectl -n gpuscale-system logs deployment/gpuscale-exporter", "kubectl -n gpuscale-system get daemonset gpuscale-dcgm",
		"kubectl -n gpuscale-system port-forward svc/gpuscale-adapter 8443:6443", "kubectl -n gpuscale-system get pods -l app.kubernetes.io/name=gpuscale-autoscalr",
		"kubectl create clusterrolebinding x --clusterrole=gpuscale-metrics --serviceaccount=a:b", "kubectl logs deploy/gpuscale-adapter",
	} {
		if check(wrong) == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// rendered renders the chart with the --set flags of an install command. Files for --values are checked where
// their pages show them; each must be on the page.
func (p *programs) rendered(ctx context.Context, words []string, page Page) error {
	args := []string{"template", pageRelease, pageChart, "--namespace", pageNamespace}
	for i, word := range words {
		flag, value, joined := strings.Cut(word, "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch flag {
		case "--set", "--set-string":
			args = append(args, flag, value)
		case "--values", "-f":
			if !slices.ContainsFunc(page.Blocks, func(b Block) bool { return b.FileName() == path.Base(value) }) && !slices.Contains(ownFiles, value) {
				return fmt.Errorf("the page shows no file %s", value)
			}
		}
	}
	if out, err := p.run(ctx, "helm", args...); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// ownFiles are users' own values files, which a page does not have to show.
var ownFiles = []string{"mine.yaml", "values.yaml", "gpuscale-images-VERSION.yaml"}

// TestInstallations: commands that install the chart only set values that exist.
func TestInstallations(t *testing.T) {
	p, n := needPrograms(t), 0
	check := func(text string, page Page) error {
		segments, err := Words(text)
		if err != nil {
			return nil
		}
		for _, words := range segments {
			if words[0] == "helm" && slices.Contains(words, pageChart) {
				n++
				return p.rendered(t.Context(), words, page)
			}
		}
		return nil
	}
	for name, page := range tree(t, ForUsers).Pages {
		for _, c := range commands(page) {
			if err := check(c.Text, page); err != nil {
				t.Errorf("%s:%d: %s: %v", name, c.Line, c.Text, err)
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d commands were found", n)
	}
	for _, wrong := range []string{"helm install gpuscale deploy/chart/gpuscale --set adapter.enable=true", "helm upgrade gpuscale deploy/chart/gpuscale --values other.yaml"} {
		if check(wrong, Page{}) == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// inline matches a chart value in a sentence: `adapter.apis.custom: false`.
var inline = regexp.MustCompile(`^([a-z][A-Za-z]*(?:\.[A-Za-z]+)+)(?:(?:: |=)(.+))?$`)

// TestValuesInSentences: chart values in sentences exist and accept what the sentence says.
func TestValuesInSentences(t *testing.T) {
	p, n := needPrograms(t), 0
	text, err := os.ReadFile(root(t) + "/" + pageChart + "/values.yaml")
	require.NoError(t, err)
	values := map[string]any{}
	require.NoError(t, yaml.Unmarshal(text, &values))
	taken := map[string]error{}
	check := func(span string) error {
		m := inline.FindStringSubmatch(span)
		if m == nil || slices.Contains([]string{".yaml", ".md", ".html", ".json"}, path.Ext(m[1])) {
			return nil
		}
		keys := strings.Split(m[1], ".")
		if _, ours := values[keys[0]]; !ours {
			return nil // a word of another program
		}
		n++
		if !within(values, keys) {
			return fmt.Errorf("there is no value %s", m[1])
		}
		if _, done := taken[span]; !done && m[2] != "" {
			nested := strings.Join(keys, ": {") + ": " + m[2] + strings.Repeat("}", len(keys)-1)
			_, taken[span] = chart.Helm{Binary: p.bin + "/helm", Chart: p.root + "/" + pageChart}.Template(t.Context(), chart.Release{Name: pageRelease, Values: nested})
		}
		return taken[span]
	}
	for name, page := range tree(t, ForUsers).Pages {
		for _, s := range page.Spans {
			if err := check(s.Text); err != nil {
				t.Errorf("%s:%d: %s: %v", name, s.Line, s.Text, err)
			}
		}
	}
	if n < 80 {
		t.Errorf("only %d values are named", n)
	}
	for _, wrong := range []string{"exporter.compatible", "exporter.compat: maybe", "adapter.enabled.x=1"} {
		if check(wrong) == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// within reports whether values contain a path. Below an empty map, users choose the keys.
func within(values map[string]any, keys []string) bool {
	of, found := values[keys[0]]
	below, isMap := of.(map[string]any)
	return found && (len(keys) == 1 || isMap && (len(below) == 0 || within(below, keys[1:])))
}

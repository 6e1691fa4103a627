package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// release is called otherwise than the chart, so that nothing can be named by
// accident.
const release, namespace = "demo", "gpus-of-ours"

func helm(t *testing.T) chart.Helm {
	t.Helper()
	testall.Only(t, "helm renders the chart")
	root, err := build.FindRoot()
	require.NoError(t, err)
	h, err := chart.New(root)
	require.NoError(t, err)
	return h
}

func render(t *testing.T, h chart.Helm, values string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := h.Template(t.Context(), chart.Release{Name: release, Namespace: namespace, Values: values})
	require.NoError(t, err)
	return objects
}

func id(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s %s/%s", o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
}

// clusterWide are the kinds of ours that have no namespace.
var clusterWide = []string{
	"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// TestLint: helm's own opinion of the chart.
func TestLint(t *testing.T) {
	h := helm(t)
	out, err := h.Run(t.Context(), chart.Release{Values: chart.Everything}, "lint", "--strict", "--quiet", h.Chart)
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(string(out), "[ERROR]") || strings.Contains(string(out), "[WARNING]") {
		t.Errorf("%s", out)
	}
}

// TestCombinations renders every combination, with no right that is not needed. What the API
// server says of each is asked in sandbox/chart.
func TestCombinations(t *testing.T) {
	h := helm(t)
	all := chart.Combinations()
	if len(all) < 50 {
		t.Errorf("only %d combinations", len(all))
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			names := map[string]bool{}
			objects := render(t, h, c.Values)
			leastPrivilege(t, c, objects)
			for _, o := range objects {
				if seen[id(o)] {
					t.Errorf("%s is rendered twice", id(o))
				}
				seen[id(o)] = true
				names[o.GetName()] = true
				checkObject(t, o)
			}
			if c.Values == "" && !names[release+"-gpuscale-exporter"] {
				t.Errorf("no object is named after the release: %v", names)
			}
		})
	}
}

// elsewhere are the namespaces that objects of ours must be in beside the
// release's own, each with its reason.
var elsewhere = map[string]string{
	"kube-system":  "who the aggregator is stands there; a device plugin of its own may run there",
	"default":      "Events of Nodes lie there",
	"gpu-operator": "mig-manager reads its configs there, and the device plugin runs there",
	"kube-public":  "a combination puts the boards there",
}

// longestName that Kubernetes takes: Services are names in DNS, a CronJob's and a
// workload's has a suffix put behind it.
func longestName(kind string) int {
	switch kind {
	case "CronJob":
		return 52
	case "Service", "Deployment", "DaemonSet":
		return 63
	}
	return 253
}

func checkObject(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	wide := slices.Contains(clusterWide, o.GetKind())
	switch ns := o.GetNamespace(); {
	case wide && ns != "":
		t.Errorf("%s has a namespace", id(o))
	case !wide && ns != namespace && elsewhere[ns] == "":
		t.Errorf("%s is not in the release's namespace", id(o))
	}
	if longest := longestName(o.GetKind()); o.GetName() == "" || len(o.GetName()) > longest {
		t.Errorf("%s: a name of %d letters, at most %d are allowed", id(o), len(o.GetName()), longest)
	}
	if o.GetLabels()["app.kubernetes.io/instance"] != release {
		t.Errorf("%s does not say of which release it is", id(o))
	}
	// gpuscale-system is where the example manifests are; none of the chart's may.
	text, err := o.MarshalJSON()
	require.NoError(t, err)
	if o.GetKind() != "CustomResourceDefinition" && strings.Contains(string(text), "gpuscale-system") {
		t.Errorf("%s names a namespace that is not installed", id(o))
	}
}

// TestSchema: errors name the path, and what cannot be wrong by its
// type with what to do.
func TestSchema(t *testing.T) {
	h := helm(t)
	text, err := os.ReadFile("testdata/bad.yaml")
	require.NoError(t, err)
	var bad []struct {
		Values json.RawMessage
		Says   string
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &bad))
	for _, c := range bad {
		t.Run(string(c.Values), func(t *testing.T) {
			t.Parallel()
			_, err := h.Template(t.Context(), releaseWith(string(c.Values)))
			if err == nil || !strings.Contains(err.Error(), c.Says) {
				t.Errorf("want an error with %q, got: %v", c.Says, err)
			}
		})
	}
}

// TestNotes: the notes after an installation end with how to see that it works, with
// the release's own namespace in the commands, and name nothing that is not installed.
func TestNotes(t *testing.T) {
	h := helm(t)
	doctor, apis := "gpuscale-report doctor --namespace "+namespace+" --prometheus-url ", "apiservice v1beta1.custom.metrics.k8s.io v1beta2.custom.metrics.k8s.io"
	type parts = []string
	for _, c := range []struct {
		values    string
		says, not parts
	}{
		{``, parts{doctor + "http://localhost:9090\n", "registry: gpuscale-exporter. Set"}, parts{"Report", "apiservice"}},
		{chart.Everything, parts{doctor, apis + " v1beta1.external", "create job"}, nil},
		{`{adapter: {enabled: true, apis: {external: false}}}`, parts{doctor, apis + "\n"}, parts{"external.metrics", "monitoring.prometheusServiceAccount"}},
		{`{adapter: {enabled: true}, monitoring: {scrape: ServiceMonitor}}`, parts{"set monitoring.prometheusServiceAccount"}, nil},
		{`{adapter: {enabled: true}, monitoring: {scrape: PodMonitor, prometheusServiceAccount: {namespace: m, name: p}}}`, nil, parts{"monitoring.prometheusServiceAccount"}},
		{`{adapter: {enabled: true}, monitoring: {scrape: ServiceMonitor, endpoints: {adapter: {authorization: {credentials: {name: t, key: token}}}}}}`, parts{"set monitoring.prometheusServiceAccount"}, nil},
		{`{prometheus: {url: "https://prom.obs.svc"}, image: {registry: r.example}}`, parts{"-n obs port-forward svc/prom 9090:443", doctor + "https://localhost:9090 --server-name prom.obs.svc"}, parts{"registry"}},
		{`{exporter: {enabled: false}, report: {enabled: true}}`, parts{"create job first-report --from=cronjob/"}, parts{"No program", doctor, "Prometheus", "socket"}},
		{`{exporter: {enabled: false}}`, parts{"No program is installed", "adapter.enabled"}, parts{doctor, "registry"}},
		{`{exporter: {enabled: false}, agent: {enabled: true, image: {repository: r.example/agent}}}`, parts{"socket"}, parts{"registry"}},
	} {
		t.Run(c.values, func(t *testing.T) {
			out, err := h.Run(t.Context(), releaseWith(c.values, "--dry-run=client"), "install", release, h.Chart)
			require.NoError(t, err)
			_, notes, found := strings.Cut(string(out), "\nNOTES:\n")
			says := func(part string) bool { return strings.Contains(notes, part) }
			if !found || says("<no value>") || says("\n\n\n") || slices.ContainsFunc(c.not, says) || slices.ContainsFunc(c.says, func(part string) bool { return !says(part) }) {
				t.Errorf("want %q, and not %q, in:\n%s", c.says, c.not, notes)
			}
		})
	}
}

func releaseWith(values string, args ...string) chart.Release {
	return chart.Release{Name: release, Namespace: namespace, Values: values, Args: args}
}

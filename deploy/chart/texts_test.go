package chart_test

import (
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Names that Kubernetes takes. YAML takes the first for a number; the second can be a Secret's, not a volume's.
const likeANumber, dotted = "1e3", "prometheus.token"

// oddTexts returns values in which every text that may be likeANumber is.
func (n *node) oddTexts() map[string]any {
	out := map[string]any{}
	for key, child := range n.Properties {
		types, several := child.Type.([]any)
		text := child.Type == "string" || several && slices.Contains(types, any("null"))
		switch {
		case child.Properties != nil:
			out[key] = child.oddTexts()
		case child.Items != nil && child.Items.Type == "string" && key != "extraArgs":
			out[key] = []string{likeANumber}
		case text && child.Enum == nil && regexp.MustCompile(child.Pattern).MatchString(likeANumber):
			out[key] = likeANumber
		}
	}
	return out
}

// TestTextsStayTexts: names that YAML takes for numbers reach the API server as texts, the release's and its
// namespace's too.
func TestTextsStayTexts(t *testing.T) {
	h := helm(t)
	known := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(known))
	require.NoError(t, apiregistrationv1.AddToScheme(known))
	for _, with := range []string{
		chart.Everything,
		`{agent: {enabled: true}, adapter: {certificate: {source: cert-manager}}, monitoring: {scrape: PodMonitor}, openshift: true}`,
		`{adapter: {certificate: {source: secret}}, monitoring: {scrape: ServiceMonitor}}`,
	} {
		values := valuesSchema(t).oddTexts()
		for _, text := range []string{
			`{adapter: {enabled: true}, autoscaler: {enabled: true}, report: {enabled: true}}`, with,
			// What has to be more than a text, and names in place of the release's.
			`{prometheus: {url: "http://p", secrets: ["` + likeANumber + `", ` + dotted + `]}, monitoring: {interval: 15s}, report: {since: 7d}, nameOverride: "", fullnameOverride: gpuscale, namespaceOverride: "", agent: {serviceAccount: {name: "2e3"}}, autoscaler: {serviceAccount: {name: "3e3"}}}`,
		} {
			var given map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &given))
			over(values, given)
		}
		text, err := yaml.Marshal(values)
		require.NoError(t, err)
		objects, err := h.Template(t.Context(), chart.Release{Name: likeANumber, Namespace: likeANumber, Values: string(text)})
		require.NoError(t, err)
		for _, o := range objects {
			typed, err := known.New(o.GroupVersionKind())
			if err != nil { // another project's
				typed = &metav1.PartialObjectMetadata{}
			}
			raw, err := o.MarshalJSON()
			require.NoError(t, err)
			if err := json.UnmarshalCaseSensitivePreserveInts(raw, typed); err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			for _, v := range volumes(o) {
				if faults := validation.IsDNS1123Label(v); len(faults) > 0 {
					t.Errorf("%s %s: volume %q: %s", o.GetKind(), o.GetName(), v, faults)
				}
			}
		}
	}
}

// volumes are the names of a workload's volumes.
func volumes(o *unstructured.Unstructured) (names []string) {
	for _, path := range [][]string{{"spec", "template", "spec", "volumes"}, {"spec", "jobTemplate", "spec", "template", "spec", "volumes"}} {
		all, _, _ := unstructured.NestedSlice(o.Object, path...)
		for _, v := range all {
			name, _, _ := unstructured.NestedString(v.(map[string]any), "name")
			names = append(names, name)
		}
	}
	return names
}

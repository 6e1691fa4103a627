package chart_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestMonitorsFindTheirServices: each ServiceMonitor selects one Service, also where Argo CD's
// tracking by label has put the name of its Application into app.kubernetes.io/instance.
func TestMonitorsFindTheirServices(t *testing.T) {
	h := helm(t)
	for _, tracked := range []string{release, "an-application"} {
		var services []labels.Set
		monitors := map[string]labels.Selector{}
		for _, o := range render(t, h, chart.Everything) {
			named := labels.Set(o.GetLabels())
			named["app.kubernetes.io/instance"] = tracked
			switch o.GetKind() {
			case "Service":
				services = append(services, named)
			case "ServiceMonitor":
				match, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
				require.NoError(t, err)
				monitors[o.GetName()] = labels.SelectorFromSet(match)
			}
		}
		for name, selector := range monitors {
			found := 0
			for _, s := range services {
				if selector.Matches(s) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("instance %s: ServiceMonitor %s (%s) selects %d Services, want 1", tracked, name, selector, found)
			}
		}
		if len(monitors) < 4 {
			t.Errorf("only the monitors %v", monitors)
		}
	}
}

// TestOperatorMissing: the chart says which value asks for an object that the cluster does not
// have: of the Prometheus Operator, or cert-manager. helm template, which sees no cluster, writes it all the same.
func TestOperatorMissing(t *testing.T) {
	h := helm(t)
	for _, c := range []struct {
		values, says string
		kinds        []string // of the Prometheus Operator, or with another API before them
	}{
		{`{scrape: none}
adapter: {enabled: true, certificate: {source: cert-manager}}`, "adapter.certificate.source: the cluster has no Certificate of cert-manager", nil},
		{`{scrape: ServiceMonitor}`, "monitoring.scrape: the cluster has no ServiceMonitor", nil},
		{`{scrape: PodMonitor}`, "monitoring.scrape: the cluster has no PodMonitor", []string{"ServiceMonitor"}},
		{`{rules: {recording: true}}`, "monitoring.rules: the cluster has no PrometheusRule", []string{"ServiceMonitor"}},
		{`{scrape: annotations}`, "", nil},
		{`{scrape: PodMonitor}`, "or set monitoring.apiVersion=azmonitoring.coreos.com/v1 for Azure's", []string{"azmonitoring.coreos.com", "PodMonitor"}},
		{`{scrape: PodMonitor, apiVersion: azmonitoring.coreos.com/v1}`, "", []string{"azmonitoring.coreos.com", "PodMonitor"}},
		{`{scrape: ServiceMonitor, apiVersion: azmonitoring.coreos.com/v1}`, "the cluster has no ServiceMonitor of Azure's managed Prometheus", []string{"ServiceMonitor"}},
		{`{scrape: ServiceMonitor, rules: {alerts: true}}`, "", []string{"ServiceMonitor", "PrometheusRule"}},
	} {
		r := releaseWith("image: {registry: registry.example}\nmonitoring: " + c.values)
		objects, err := h.Template(t.Context(), r)
		require.NoError(t, err)
		for _, o := range objects {
			if version := o.GetAPIVersion(); strings.HasSuffix(o.GetKind(), "Monitor") && strings.Contains(c.values, "apiVersion") && version != "azmonitoring.coreos.com/v1" {
				t.Errorf("%s: %s is of %s", c.values, id(o), version)
			}
		}
		there := h
		there.Kubeconfig = clusterOf(t, c.kinds)
		_, err = there.Run(t.Context(), r, "install", release, h.Chart, "--dry-run=server")
		// What it says next is of this fake, which has no other kinds.
		if says := fmt.Sprint(err); c.says != "" && !strings.Contains(says, c.says) || c.says == "" && strings.Contains(says, "the cluster has no") {
			t.Errorf("%s in a cluster with %q: %v", c.values, c.kinds, err)
		}
	}
}

// TestSecondExporter: the chart refuses an exporter beside that of another release, unless it is for nodes of its own.
func TestSecondExporter(t *testing.T) {
	h := helm(t)
	ofRelease := func(name string) map[string]any {
		return map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{
			"name": "gpuscale-exporter", "namespace": namespace, "labels": map[string]string{"app.kubernetes.io/part-of": "gpuscale", "app.kubernetes.io/component": "exporter"},
			"annotations": map[string]string{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace},
		}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{}}}}}
	}
	for _, c := range []struct{ of, values, says string }{
		{"other", "", `DaemonSet ` + namespace + `/gpuscale-exporter, of release "other", is gpuscale's exporter, too`},
		{release, "", ""},
		{"other", "exporter: {nodeSelector: {gpu: small}}", ""},
		{"other", "exporter: {enabled: false}", ""},
	} {
		there := h
		there.Kubeconfig = clusterOf(t, nil, ofRelease(c.of))
		_, err := there.Run(t.Context(), releaseWith("image: {registry: registry.example}\n"+c.values), "install", release, h.Chart, "--dry-run=server")
		if says := fmt.Sprint(err); c.says != "" && !strings.Contains(says, c.says) || c.says == "" && strings.Contains(says, "exporter, too") {
			t.Errorf("%s with %q: %v", c.of, c.values, err)
		}
	}
}

// TestEgressReachesPrometheus: without destinations, programs that query would be cut off.
func TestEgressReachesPrometheus(t *testing.T) {
	h := helm(t)
	for values, refused := range map[string]bool{
		"adapter: {enabled: true}": true, "exporter: {dra: true}": true, "report: {enabled: true}": true, "": false,
	} {
		_, err := h.Template(t.Context(), releaseWith("networkPolicy: {enabled: true, egress: {enabled: true}}\n"+values))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "networkPolicy.egress.to") {
			t.Errorf("%q: %v", values, err)
		}
	}
}

// clusterOf is the kubeconfig of a fake API server that has these kinds of the Prometheus Operator, or of the
// group before them, the namespace kube-system, these DaemonSets, and no other object.
func clusterOf(t *testing.T, kinds []string, daemonSets ...any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(o any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(o)
		}
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")}
		add := func(all ...string) {
			for _, kind := range all {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind})
			}
		}
		group, kinds := "monitoring.coreos.com", kinds
		if len(kinds) > 0 && strings.Contains(kinds[0], ".") {
			group, kinds = kinds[0], kinds[1:]
		}
		monitoring := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1", Version: "v1"}
		switch path := r.URL.Path; {
		case path == "/version":
			answer(map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
		case path == "/api":
			answer(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		case path == "/apis":
			answer(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{
				Name: group, Versions: []metav1.GroupVersionForDiscovery{monitoring}, PreferredVersion: monitoring,
			}}})
		case path == "/apis/"+monitoring.GroupVersion:
			add(kinds...)
			answer(list)
		case path == "/api/v1" || strings.Count(path, "/") == 3 && strings.HasPrefix(path, "/apis/"):
			add("Namespace", "DaemonSet", "RuntimeClass") // which the chart looks up
			answer(list)
		case path == "/api/v1/namespaces/kube-system":
			answer(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "kube-system"}})
		case strings.HasSuffix(path, "/daemonsets"):
			answer(map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": append([]any{}, daemonSets...)})
		case strings.HasSuffix(path, "s"):
			answer(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{}})
		default:
			w.WriteHeader(http.StatusNotFound)
			answer(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
users: [{name: u, user: {}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`, server.URL), 0o600))
	return file
}

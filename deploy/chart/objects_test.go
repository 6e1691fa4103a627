package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestOpenShift: it assigns users itself and refuses pods that name others; a pod that
// mounts folders of the node needs its privileged constraint. It is known by its API.
func TestOpenShift(t *testing.T) {
	h := helm(t)
	const programs = `{adapter: {enabled: true}, autoscaler: {enabled: true}, agent: {enabled: true}, report: {enabled: true}`
	there := []string{"--api-versions", "security.openshift.io/v1"}
	for _, c := range []struct {
		name, values string
		args         []string
		want         bool
	}{
		{"defaults, elsewhere", programs + `}`, nil, false},
		{"defaults, there", programs + `}`, there, true},
		{"said", programs + `, openshift: true}`, nil, true},
		{"said in quotes", programs + `, openshift: "true"}`, nil, true},
		{"there, and turned off", programs + `, openshift: false}`, there, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			objects, err := h.Template(t.Context(), releaseWith(c.values, c.args...))
			require.NoError(t, err)
			users, bound := 0, map[string]bool{}
			for _, o := range objects {
				if role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name"); role == "system:openshift:scc:privileged" {
					bound[o.GetName()] = true
				}
				for _, path := range [][]string{{"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
					if _, names, _ := unstructured.NestedInt64(o.Object, append(path, "securityContext", "runAsUser")...); names {
						users++
					}
				}
			}
			if c.want != (users == 0) || !c.want && users != 3 {
				t.Errorf("%d pods name their user", users)
			}
			if want := map[bool]int{true: 2}[c.want]; len(bound) != want || c.want && !(bound[release+"-gpuscale-exporter-scc"] && bound[release+"-gpuscale-agent-scc"]) {
				t.Errorf("bound to the constraint: %v", bound)
			}
		})
	}
}

// TestNamespaceOverride: nothing is left in the release's own namespace, in words
// within files, arguments and certificates neither.
func TestNamespaceOverride(t *testing.T) {
	h := helm(t)
	out, err := h.Run(t.Context(), releaseWith(strings.TrimSpace(chart.Everything)+"\nnamespaceOverride: other-place\n"), "template", release, h.Chart)
	require.NoError(t, err)
	if n := strings.Count(string(out), namespace); n > 0 {
		at := strings.Index(string(out), namespace)
		t.Errorf("the release's namespace is named %d times: …%s…", n, out[max(0, at-200):at+50])
	}
	if strings.Count(string(out), "other-place") < 30 {
		t.Error("the other one is hardly named")
	}
}

// TestUmbrella: a chart that has this one as a dependency may name it otherwise and leave it out. Jobs are called as
// boards and alerts name them all the same, and images come from the registry of all its charts.
func TestUmbrella(t *testing.T) {
	umbrella := helm(t)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "charts"), 0o755))
	require.NoError(t, os.Symlink(umbrella.Chart, filepath.Join(dir, "charts", "gpuscale")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte(`{apiVersion: v2, name: platform, version: 1.0.0,
dependencies: [{name: gpuscale, alias: gpus, condition: gpus.enabled, version: "*", repository: ""}]}`), 0o600))
	umbrella.Chart = dir
	if left := render(t, umbrella, `{gpus: {enabled: false}}`); len(left) > 0 {
		t.Errorf("%d objects where it is left out", len(left))
	}
	monitored := map[string]bool{}
	for _, o := range render(t, umbrella, `{global: {imageRegistry: registry.example, imagePullSecrets: [shared, {name: own}]}, gpus: {enabled: true, image: {pullSecrets: [{name: own}]}, adapter: {enabled: true}, autoscaler: {enabled: true}, monitoring: {scrape: ServiceMonitor}}}`) {
		switch name := o.GetLabels()["app.kubernetes.io/name"]; o.GetKind() {
		case "Service":
			monitored[name] = true
		case "Deployment", "DaemonSet":
			pod := podSpec(t, o)
			image := pod["containers"].([]any)[0].(map[string]any)["image"]
			if secrets := fmt.Sprint(pod["imagePullSecrets"]); secrets != "[map[name:own] map[name:shared]]" || !strings.HasPrefix(fmt.Sprint(image), "registry.example/gpuscale-") {
				t.Errorf("%s: %v by %s", id(o), image, secrets)
			}
		}
	}
	for _, job := range []string{"gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler"} {
		if !monitored[job] {
			t.Errorf("no Service gives the job %s: %v", job, monitored)
		}
	}
}

// TestLinux: the images are Linux', and on clusters with nodes of Windows, which have no taint, a selector
// of a user's own does not take that away. Exporter and agent run where GPUs are found by programs of Linux'.
func TestLinux(t *testing.T) {
	for _, o := range render(t, helm(t), `{adapter: {enabled: true, nodeSelector: {zone: a}}, autoscaler: {enabled: true}, report: {enabled: true}}`) {
		if kind := o.GetKind(); kind == "Deployment" || kind == "CronJob" {
			if os, _, _ := unstructured.NestedString(podSpec(t, o), "nodeSelector", "kubernetes.io/os"); os != "linux" {
				t.Errorf("%s may run on %q", id(o), os)
			}
		}
	}
}

// TestHostNetworkRollsOut: on as many nodes as there are replicas a new adapter has a port once an old one has gone.
func TestHostNetworkRollsOut(t *testing.T) {
	for _, o := range render(t, helm(t), `{adapter: {enabled: true, hostNetwork: true}}`) {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxSurge.IntValue() != 0 || r.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s rolls out by %+v", id(o), d.Spec.Strategy)
		}
	}
}

// TestHostNetwork: a pod on the node's network resolves the names of Services all the same.
func TestHostNetwork(t *testing.T) {
	for _, o := range render(t, helm(t), `{exporter: {hostNetwork: true}, adapter: {enabled: true, hostNetwork: true}}`) {
		if kind := o.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
			spec := podSpec(t, o)
			if spec["hostNetwork"] != true || spec["dnsPolicy"] != "ClusterFirstWithHostNet" {
				t.Errorf("%s: hostNetwork %v, dnsPolicy %v", id(o), spec["hostNetwork"], spec["dnsPolicy"])
			}
		}
	}
}

// TestEgressNamesPeers: no rule of a NetworkPolicy reaches everywhere, port 53 neither: it would carry
// data out.
func TestEgressNamesPeers(t *testing.T) {
	policies := 0
	for _, o := range render(t, helm(t), `{prometheus: {url: "http://p"}, adapter: {enabled: true}, autoscaler: {enabled: true}, report: {enabled: true}, networkPolicy: {enabled: true, egress: {enabled: true, to: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}}}`) {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		policies++
		rules, _, err := unstructured.NestedSlice(o.Object, "spec", "egress")
		if err != nil || len(rules) == 0 {
			t.Errorf("%s: egress %v, %v", id(o), rules, err)
		}
		for _, rule := range rules {
			if to, _, err := unstructured.NestedSlice(rule.(map[string]any), "to"); err != nil || len(to) == 0 {
				t.Errorf("%s: a rule reaches everywhere: %v", id(o), rule)
			}
		}
	}
	if policies < 3 {
		t.Errorf("%d policies", policies)
	}
}

// TestResourcesAreMeasured: each program's resources have the figures that they were set by, and these are in
// the table of docs/operations.md too.
func TestResourcesAreMeasured(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("gpuscale", "values.yaml"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, sizing, _ := strings.Cut(string(page), "\n## Sizing\n")
	figure := regexp.MustCompile(`[0-9.]+ (?:MiB|MB|GiB|of a core|ms|s of)`)
	all := regexp.MustCompile(`(?m)((?:^  #.*\n)*)^  resources:$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range all {
		if !strings.Contains(m[1], "  # -- Measured") {
			t.Errorf("resources without a figure, below %q", m[1])
		}
		for _, f := range figure.FindAllString(m[1], -1) {
			if !strings.Contains(sizing, strings.TrimSuffix(f, " of")) {
				t.Errorf("docs/operations.md does not have %s of %q", f, m[1])
			}
		}
	}
	if len(all) != 5 {
		t.Errorf("%d programs, want 5", len(all))
	}
}

package chart

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestRefused: what would not work stops an installation before it begins, with the words
// to type; what is there is used.
func TestRefused(t *testing.T) {
	b := start(t)
	for name, level := range map[string]string{"plain": "", "enforced": "baseline"} {
		require.NoError(t, b.namespace(t.Context(), name, level))
	}
	const registry = "image: {registry: registry.example}\n"
	for _, c := range []struct {
		name, namespace, values string
		want                    []string // in the error
	}{
		{"defaults", "plain", registry, nil},
		{"images from nowhere", "plain", "", []string{"image.registry: gpuscale-exporter:devel is in no registry", "make image PROGRAM=exporter VERSION=devel", "image.pullPolicy=Never"}},
		{"images that the nodes have", "plain", "image: {pullPolicy: Never}", nil},
		{"images by another tag", "plain", "image: {tag: trial}", nil},
		{
			"an exporter where Pod Security refuses it", "enforced", registry,
			[]string{`exporter: namespace "enforced" enforces Pod Security "baseline"`, "kubectl label --overwrite namespace enforced pod-security.kubernetes.io/enforce=privileged"},
		},
		{"no exporter there", "enforced", registry + "exporter: {enabled: false}\nreport: {enabled: true}", nil},
		{
			"a RuntimeClass that there is not", "plain", registry + "exporter: {runtimeClassName: kata}",
			[]string{`exporter.runtimeClassName: there is no RuntimeClass "kata"`, "kubectl get runtimeclass"},
		},
		{
			"custom metrics of another server", "plain", registry + "adapter: {enabled: true}",
			[]string{
				"adapter.apis.custom: APIService v1beta1.custom.metrics.k8s.io is there already", `for service "` + adapterName + `" in namespace "` + installed + `"`,
				"adapter.apis.custom=false", "kubectl delete apiservice v1beta1.custom.metrics.k8s.io",
			},
		},
		{
			"external metrics of another server", "plain", registry + "adapter: {enabled: true, apis: {custom: false}}",
			[]string{"adapter.apis.external: APIService v1beta1.external.metrics.k8s.io is there already", "docs/adapter.md"},
		},
		{"an adapter without APIs", "plain", registry + "adapter: {enabled: true, apis: {custom: false, external: false}}", nil},
	} {
		out, err := b.helm.Run(t.Context(), chart.Release{Namespace: c.namespace, Values: c.values}, "install", "other", b.helm.Chart, "--dry-run=server")
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", c.name, want, err)
			}
		}
		if err == nil && strings.Contains(string(out), "runtimeClassName:") {
			t.Errorf("%s: a RuntimeClass that the cluster does not have", c.name)
		}
	}

	x := &trouble{env: b, t: t}
	x.add("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
	for values, want := range map[string]bool{"": true, `exporter: {runtimeClassName: ""}`: false} {
		out, err := b.helm.Run(t.Context(), chart.Release{Namespace: "plain", Values: registry + values}, "install", "other", b.helm.Chart, "--dry-run=server")
		require.NoError(t, err)
		if got := strings.Contains(string(out), "runtimeClassName: nvidia"); got != want {
			t.Errorf("%q: the RuntimeClass nvidia is used: %v, want %v", values, got, want)
		}
	}
}

// TestCompatAuto: beside a dcgm-exporter ours leaves its series out, or every sum would double.
func TestCompatAuto(t *testing.T) {
	b := start(t)
	require.NoError(t, b.namespace(t.Context(), "compat", ""))
	args := func(values string) string {
		t.Helper()
		out, err := b.helm.Run(t.Context(), chart.Release{Namespace: "compat", Values: "image: {registry: registry.example}\n" + values}, "install", "other", b.helm.Chart, "--dry-run=server")
		require.NoError(t, err)
		return string(out)
	}
	wants := func(values, want string) {
		t.Helper()
		if out := args(values); !strings.Contains(out, "--compat="+want) {
			t.Errorf("%q: no --compat=%s", values, want)
		}
	}
	wants("", "true")
	x := &trouble{env: b, t: t}
	x.add(`apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: compat, name: nvidia-dcgm-exporter}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      nodeSelector: {none: such}
      containers: [{name: d, image: "registry.example/nvidia/k8s/dcgm-exporter:4.5.1-4.8.0"}]
`)
	wants("", "false")
	wants(`exporter: {compat: once}`, "once")
	if out := args(""); !strings.Contains(out, "dcgm-exporter has them here (compat/nvidia-dcgm-exporter)") {
		t.Error("the notes do not say why there are no DCGM_* series")
	}
}

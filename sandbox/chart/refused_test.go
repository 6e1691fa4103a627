package chart

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestRefused plays testdata/refused.yaml: installations that Helm must refuse. It uses what other tests have
// installed.
func TestRefused(t *testing.T) {
	b := start(t)
	require.NoError(t, errors.Join(b.namespace(t.Context(), "plain", ""), b.namespace(t.Context(), "enforced", "baseline")))
	text, err := os.ReadFile("testdata/refused.yaml")
	require.NoError(t, err)
	var all []struct {
		Name, Namespace string
		Values          json.RawMessage
		Says            []string // in the error; none if the installation is accepted
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &all))
	for _, c := range all {
		out, err := b.helm.Run(t.Context(), chart.Release{Namespace: cmp.Or(c.Namespace, "plain"), Values: string(c.Values)}, "install", "other", b.helm.Chart, "--dry-run=server")
		if (err != nil) != (c.Says != nil) {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for _, want := range c.Says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", c.Name, want, err)
			}
		}
		if err == nil && strings.Contains(string(out), "runtimeClassName:") {
			t.Errorf("%s: a RuntimeClass that the cluster does not have", c.Name)
		}
	}

	x := &trouble{env: b, t: t}
	x.add("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
	for values, want := range map[string]bool{"": true, `exporter: {runtimeClassName: ""}`: false} {
		if got := strings.Contains(b.other(t, "plain", values), `runtimeClassName: "nvidia"`); got != want {
			t.Errorf("%q: the RuntimeClass nvidia is used: %v, want %v", values, got, want)
		}
	}
}

// other renders what another release would install.
func (b *env) other(t *testing.T, namespace, values string) string {
	t.Helper()
	r := chart.Release{Namespace: namespace, Values: "image: {registry: registry.example}\n" + values, Args: []string{"--set", "exporter.nodeSelector.gpu=small"}}
	out, err := b.helm.Run(t.Context(), r, "install", "other", b.helm.Chart, "--dry-run=server")
	require.NoError(t, err)
	return string(out)
}

// TestCompatAuto: with a dcgm-exporter in the cluster, ours leaves out the DCGM series; otherwise every sum
// would be doubled.
func TestCompatAuto(t *testing.T) {
	b := start(t)
	require.NoError(t, b.namespace(t.Context(), "compat", ""))
	wants := func(values, want string) {
		t.Helper()
		if out := b.other(t, "compat", values); !strings.Contains(out, "--compat="+want) {
			t.Errorf("%q: no --compat=%s", values, want)
		}
	}
	x := &trouble{env: b, t: t}
	// A DaemonSet of ours with dcgm-exporter's counters at their usual path.
	x.add(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: compat, name: ours, labels: {app.kubernetes.io/part-of: gpuscale}}, spec: {selector: {matchLabels: {app: o}}, template: {metadata: {labels: {app: o}},
		spec: {nodeSelector: {none: such}, containers: [{name: e, image: registry.example/gpuscale-exporter, args: [-f, /etc/dcgm-exporter/counters.csv]}]}}}}`)
	wants("", "true")
	// The dcgm-exporter of EKS's CloudWatch add-on, which only CloudWatch's agent scrapes.
	x.add(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: compat, name: dcgm-exporter, ownerReferences: [{apiVersion: cloudwatch.aws.amazon.com/v1alpha1, kind: DcgmExporter, name: dcgm-exporter, uid: none}]},
		spec: {selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: "registry.example/eks/observability/dcgm-exporter:4.1"}]}}}}`)
	wants("", "true")
	x.add(`{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: compat, name: nvidia-dcgm-exporter}, spec: {selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}},
		spec: {nodeSelector: {none: such}, containers: [{name: d, image: "registry.example/nvidia/k8s/dcgm-exporter:4.5.1-4.8.0"}]}}}}`)
	wants("", "false")
	wants(`exporter: {compat: once}`, "once")
	if out := b.other(t, "compat", ""); !strings.Contains(out, "dcgm-exporter has them here (compat/nvidia-dcgm-exporter)") {
		t.Error("the notes do not say why there are no DCGM_* series")
	}
}

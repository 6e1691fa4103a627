package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// installed is the release's namespace, soon how long a thing may take that takes no
// time, late one that waits for scrapes, rounds and a busy machine.
const (
	installed = "cards"
	soon      = time.Minute
	late      = 3 * time.Minute
)

// prometheusConfig scrapes what the test writes down as targets.
const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: gpuscale-exporter
  file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
`

// installation is the chart in the cluster, and our programs beside it.
type installation struct {
	*bed
	t       *testing.T
	helm    chart.Helm
	release chart.Release
}

// TestInstalled installs the chart with Helm, upgrades it, runs adapter and
// autoscaler as its pods say, and plays the loop: a pod that waits makes a node, a
// busy card makes a pod. Not one request of ours may be refused meanwhile.
func TestInstalled(t *testing.T) {
	b := start(t)
	b.namespace(t, installed, "privileged")
	b.namespace(t, "team", "")
	adapterPort, autoscalerPort := freePort(t), freePort(t)
	h := b.helm
	h.Kubeconfig = b.cluster.Kubeconfig()
	i := &installation{bed: b, t: t, helm: h, release: chart.Release{Name: "gpuscale", Namespace: installed, Values: fmt.Sprintf(`
prometheus: {url: %q}
exporter: {resources: {}, nodeSelector: {}}
adapter: {port: %[2]d, servicePort: %[2]d, config: {interval: 1s, maxAge: 10s}}
autoscaler:
  port: %[3]d
  pools: {kwok: true}
  config: {prometheus: {interval: 1s, maxAge: 10s}}
`, b.cluster.PrometheusURL(), adapterPort, autoscalerPort)}}

	t.Run("a namespace that is not there is named", i.missingNamespace)
	b.namespace(t, "gpu-operator", "")
	t.Run("dry run on the server", func(t *testing.T) {
		r := i.release
		r.Args = []string{"--dry-run=server"}
		if err := i.helm.Install(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var ds appsv1.DaemonSetList
		if err := b.admin.List(t.Context(), &ds, client.InNamespace(installed)); err != nil || len(ds.Items) > 0 {
			t.Errorf("something was installed: %v %v", ds.Items, err)
		}
	})
	if err := i.helm.Install(t.Context(), i.release); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"an upgrade keeps the certificate", i.upgrade},
		{"a certificate taken away is made anew, with its authority", i.renewed},
		{"the adapter as its pod says", i.runAdapter},
		{"the autoscaler as its pod says", func(t *testing.T) { i.runAutoscaler(t, autoscalerPort) }},
		{"a pod that waits makes a node, a busy card makes a pod", i.loop},
		{"the exporter follows mig-manager's labels", i.paused},
		{"nothing was refused", i.nothingRefused},
		{"what stays when it is gone", i.uninstall},
	} {
		if !t.Run(part.name, part.run) {
			return // the next part would only show the same failure again
		}
	}
}

func (i *installation) missingNamespace(t *testing.T) {
	var ns corev1.Namespace
	if err := i.admin.Get(t.Context(), client.ObjectKey{Name: "gpu-operator"}, &ns); err == nil {
		// Another test of this control plane has made it: name one that nobody makes.
		r := i.release
		r.Args = []string{"--set", "autoscaler.migManager.namespace=nobodys"}
		i.refused(t, r, `autoscaler.migManager.namespace: there is no namespace "nobodys"`)
		return
	}
	i.refused(t, i.release, `autoscaler.migManager.namespace: there is no namespace "gpu-operator"`)
}

func (i *installation) refused(t *testing.T, r chart.Release, why string) {
	t.Helper()
	if err := i.helm.Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("want %q, got %v", why, err)
	}
}

// serving is the adapter's Secret and what the APIServices believe.
func (i *installation) serving(t *testing.T) (secret corev1.Secret, bundle string) {
	t.Helper()
	if err := i.admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: "gpuscale-adapter-tls"}, &secret); err != nil {
		t.Fatal(err)
	}
	api := apiService("v1beta2.custom.metrics.k8s.io")
	if err := i.admin.Get(t.Context(), client.ObjectKeyFromObject(api), api); err != nil {
		t.Fatal(err)
	}
	bundle, _, _ = unstructured.NestedString(api.Object, "spec", "caBundle")
	return secret, bundle
}

func apiService(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	u.SetName(name)
	return u
}

func (i *installation) upgrade(t *testing.T) {
	before, bundle := i.serving(t)
	r := i.release
	r.Args = []string{"--set", "adapter.replicas=3"}
	if err := i.helm.Install(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := i.admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: "gpuscale-adapter"}, &d); err != nil || *d.Spec.Replicas != 3 {
		t.Fatalf("the upgrade did nothing: %v", err)
	}
	after, now := i.serving(t)
	if string(before.Data["tls.key"]) != string(after.Data["tls.key"]) || bundle != now || bundle == "" {
		t.Error("the certificate or its authority has changed")
	}
}

func (i *installation) renewed(t *testing.T) {
	before, bundle := i.serving(t)
	if err := i.admin.Delete(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	if err := i.helm.Install(t.Context(), i.release); err != nil {
		t.Fatal(err)
	}
	after, now := i.serving(t)
	if string(before.Data["tls.key"]) == string(after.Data["tls.key"]) || bundle == now {
		t.Error("the old certificate is still there")
	}
}

// paused: mig-manager takes dcgm-exporter off a node by its label before it cuts
// cards; ours has to go, too, or it holds the cards.
func (i *installation) paused(t *testing.T) {
	ctx := t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-node", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		Labels: map[string]string{"nvidia.com/gpu.present": "true"}}}
	if err := i.admin.Create(ctx, node); err != nil {
		t.Fatal(err)
	}
	there := func(want bool) func() error {
		return func() error {
			var pods corev1.PodList
			if err := i.admin.List(ctx, &pods, client.InNamespace(installed), client.MatchingLabels{"app.kubernetes.io/name": "gpuscale-exporter"}); err != nil {
				return err
			}
			on := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
				text, _ := json.Marshal(p.Spec)
				return p.DeletionTimestamp.IsZero() && strings.Contains(string(text), "gpu-node")
			})
			if on != want {
				return fmt.Errorf("an exporter on the node: %v, want %v", on, want)
			}
			return nil
		}
	}
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"nvidia.com/gpu.deploy.dcgm-exporter":%q}}}`, value)
		if err := i.admin.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	until(t, soon, "an exporter on a node that has cards", there(true))
	label("paused-for-mig-change")
	until(t, soon, "no exporter while cards are cut", there(false))
	label("true")
	until(t, soon, "an exporter afterwards", there(true))
	label("false")
	until(t, soon, "no exporter where somebody turned it off", there(false))
}

// uninstall: what a person made stays.
func (i *installation) uninstall(t *testing.T) {
	if _, err := i.helm.Run(t.Context(), chart.Release{Namespace: installed}, "uninstall", "gpuscale"); err != nil {
		t.Fatal(err)
	}
	var pool v1alpha1.GPUNodePool
	if err := i.admin.Get(t.Context(), client.ObjectKey{Name: "h100"}, &pool); err != nil {
		t.Errorf("the pool is gone: %v", err)
	}
	var d appsv1.Deployment
	err := i.admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: "gpuscale-adapter"}, &d)
	if err == nil && d.DeletionTimestamp.IsZero() || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("the adapter is still there: %v", err)
	}
	// And it can be installed again over what stayed.
	if err := i.helm.Install(t.Context(), i.release); err != nil {
		t.Errorf("a second installation: %v", err)
	}
}

// freePort is a program's own until the test ends.
func freePort(t *testing.T) int {
	t.Helper()
	port, release, err := proc.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

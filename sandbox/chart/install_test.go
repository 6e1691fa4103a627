package chart

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// installed is the release's namespace, soon how long a thing may take that takes no
// time, late one that waits for scrapes, rounds and a busy machine.
const (
	installed = "cards"
	soon      = 30 * time.Second
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

// runAs starts a program with the arguments and files of its Deployment and the
// token of its service account. extra is what a process needs that a pod has.
func (i *installation) runAs(t *testing.T, component string, extra func(kubeconfig string) []string) {
	t.Helper()
	ctx := t.Context()
	var d appsv1.Deployment
	if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: "gpuscale-" + component}, &d); err != nil {
		t.Fatal(err)
	}
	spec := d.Spec.Template.Spec
	if spec.AutomountServiceAccountToken == nil || !*spec.AutomountServiceAccountToken {
		t.Fatal("its pods have no token")
	}
	args := mounted(t, spec, i.t.TempDir(), func(v corev1.Volume) map[string][]byte {
		out := map[string][]byte{}
		switch {
		case v.ConfigMap != nil:
			var c corev1.ConfigMap
			if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.ConfigMap.Name}, &c); err != nil {
				t.Fatal(err)
			}
			for name, text := range c.Data {
				out[name] = []byte(text)
			}
		case v.Secret != nil:
			var s corev1.Secret
			if err := i.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.Secret.SecretName}, &s); err != nil {
				t.Fatal(err)
			}
			out = s.Data
		}
		return out
	})
	kubeconfig, err := i.cluster.ServiceAccountKubeconfig(ctx, installed, spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := i.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-" + component, Path: filepath.Join(i.programs, "gpuscale-"+component),
		Args: append(args, extra(kubeconfig)...), Log: i.cluster.LogFile("gpuscale-" + component),
	})
	if err != nil {
		t.Fatal(err)
	}
	i.t.Cleanup(func() {
		p.Stop(3 * time.Second)
		if i.t.Failed() {
			i.t.Logf("%s said last:\n%s", component, strings.Join(proc.Tail(i.cluster.LogFile("gpuscale-"+component), 40), "\n"))
		}
	})
}

func (i *installation) runAdapter(t *testing.T) {
	// No network leads to a pod here: the Service's name is the loopback's, at the port
	// that the chart was told. The certificate is for the Service's name all the same.
	patch := `{"spec":{"type":"ExternalName","externalName":"localhost","selector":null,"clusterIP":null,"clusterIPs":null}}`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "gpuscale-adapter"}}
	if err := i.admin.Patch(t.Context(), service, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	i.runAs(t, "adapter", func(kubeconfig string) []string {
		return []string{"--bind-address=127.0.0.1", "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}
	})
	i.until(t, late, "the API server finds the adapter in order", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return i.cluster.WaitAPI(ctx, schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta1"},
			schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta2"}, schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"})
	})
}

func (i *installation) runAutoscaler(t *testing.T, port int) {
	i.runAs(t, "autoscaler", func(kubeconfig string) []string { return []string{"--kubeconfig=" + kubeconfig} })
	i.until(t, late, "the autoscaler is ready", func() error {
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// story is a pool that is empty and a Deployment whose pods want a card each.
const story = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: h100}
spec:
  min: 0
  max: 3
  provider: {kwok: {}}
  template: {product: NVIDIA-H100-80GB-HBM3, cards: 1, cpu: "32", memory: 256Gi}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: embed, namespace: team}
spec:
  replicas: 1
  selector: {matchLabels: {app: embed}}
  template:
    metadata: {labels: {app: embed}}
    spec:
      containers:
      - name: server
        image: server
        resources: {limits: {nvidia.com/gpu: "1", cpu: "1", memory: 1Gi}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: embed, namespace: team}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: embed}
  minReplicas: 1
  maxReplicas: 2
  metrics:
  - type: Pods
    pods:
      metric: {name: gpu_busy}
      target: {type: AverageValue, averageValue: 600m}
`

func (i *installation) loop(t *testing.T) {
	ctx := t.Context()
	i.exporterDouble(t)
	objects, err := neighbours.Parse([]byte(story))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := i.admin.Create(ctx, o); err != nil {
			t.Fatalf("%s: %v", o.GetKind(), err)
		}
	}
	running := func(want int) error {
		var pods corev1.PodList
		if err := i.admin.List(ctx, &pods, client.InNamespace("team")); err != nil {
			return err
		}
		n, said := 0, []string{}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				n++
			}
			said = append(said, fmt.Sprintf("%s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName))
		}
		if n != want {
			return fmt.Errorf("%d of %d run: %v; log: %v", n, want, said, proc.Tail(i.cluster.LogFile("gpuscale-autoscaler"), 3))
		}
		return nil
	}
	i.until(t, late, "a node for the first pod", func() error { return running(1) })
	i.until(t, late, "the HPA reads gpu_busy and asks for another", func() error {
		var h autoscalingv2.HorizontalPodAutoscaler
		if err := i.admin.Get(ctx, client.ObjectKey{Namespace: "team", Name: "embed"}, &h); err != nil {
			return err
		}
		if h.Status.DesiredReplicas != 2 {
			return fmt.Errorf("%+v; log: %v", h.Status, proc.Tail(i.cluster.LogFile("gpuscale-adapter"), 3))
		}
		return nil
	})
	i.until(t, late, "a node for the second pod", func() error { return running(2) })
	var nodes corev1.NodeList
	if err := i.admin.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: "h100"}); err != nil || len(nodes.Items) != 2 {
		t.Errorf("%d nodes, want 2: %v", len(nodes.Items), err)
	}
}

// exporterDouble serves what an exporter would say of the pods that run: each has a
// card, nine tenths busy.
func (i *installation) exporterDouble(t *testing.T) {
	t.Helper()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var pods corev1.PodList
		if err := i.admin.List(r.Context(), &pods, client.InNamespace("team")); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "# TYPE gpu_busy_ratio gauge")
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				fmt.Fprintf(w, "gpu_busy_ratio{node=%q,gpu=\"0\",gpu_uuid=\"GPU-%s\",model=\"NVIDIA H100 80GB HBM3\",namespace=\"team\",pod=%q,container=\"server\"} 0.9\n", p.Spec.NodeName, p.Spec.NodeName, p.Name)
			}
		}
	}))
	i.t.Cleanup(page.Close)
	// The chart's own namespace is one that the adapter was told to trust.
	targets := fmt.Sprintf(`[{"targets": [%q], "labels": {"namespace": %q, "pod": "gpuscale-exporter-x"}}]`, strings.TrimPrefix(page.URL, "http://"), installed)
	if err := os.WriteFile(filepath.Join(i.cluster.PrometheusDir(), "targets.json"), []byte(targets), 0o600); err != nil {
		t.Fatal(err)
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

// until waits like the one of all tests, and ends at the first request of ours that
// is refused: what is waited for would not come, and this says which right it lacks.
func (i *installation) until(t *testing.T, within time.Duration, what string, ok func() error) {
	t.Helper()
	until(t, within, what, func() error {
		if _, refused := i.answers(t); len(refused) > 0 {
			t.Fatalf("%s: refused: %q", what, refused)
		}
		return ok()
	})
}

// nothingRefused: not even a request that a program can do without.
func (i *installation) nothingRefused(t *testing.T) {
	answers, refused := i.answers(t)
	for _, what := range refused {
		t.Errorf("refused: %s", what)
	}
	for _, who := range []string{"gpuscale-adapter", "gpuscale-autoscaler"} {
		if answers[who] < 10 {
			t.Errorf("%s asked %d times; was it there at all?", who, answers[who])
		}
	}
}

// answers reads the audit log: how many answers each program got, and what was
// refused.
func (i *installation) answers(t *testing.T) (map[string]int, []string) {
	t.Helper()
	file, err := os.Open(i.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	answers := map[string]int{}
	refused := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be half written
		}
		who := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
		answers[who]++
		if e.ResponseStatus.Code == http.StatusForbidden || e.ResponseStatus.Code == http.StatusUnauthorized {
			path, _, _ := strings.Cut(e.RequestURI, "?")
			refused[fmt.Sprintf("%s: %s %s", who, e.Verb, path)] = true
		}
	}
	return answers, slices.Sorted(maps.Keys(refused))
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

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// signalsStory has no traffic of its own and no HPA: the test brings both.
const signalsStory = `
story "signals"
pool  h100 product=NVIDIA-H100-80GB-HBM3 gpus=3 min=1 max=1 layout="3g.40gb*2" idle-after=2s scale-down-after=10m
node  gpu-a pool=h100 layout="3g.40gb*2 | 1g.10gb*7 | 1g.10gb*7"
run   search/embed replicas=2 ask=nvidia.com/mig-1g.10gb busy=0.3 memory-gib=6
run   vision/segment replicas=1 ask=nvidia.com/mig-1g.10gb busy=0.7 memory-gib=6
serve chat/vllm replicas=2 ask=nvidia.com/mig-3g.40gb model=chat-13b load=100ms
`

// slow is the speed of traffic time: requests that take half a minute last
// longer than the test.
const slow = 0.1

const (
	customV1   = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/"
	customV2   = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/"
	externalV1 = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
	queueOf    = "chat/deployments.apps/vllm/queue_depth"
	busyOf     = "search/pods/*/gpu_busy"
)

// TestSignals asks the metrics APIs as a user does, through the real
// aggregator, and lets the real HPA controller act on them, while parts of the
// loop are ended. Its parts share one world and build on one another.
func TestSignals(t *testing.T) {
	testall.Only(t, "every signal of the guide, and each part of the loop ended")
	b := newSignalsEnv(t)
	for _, part := range []struct {
		name string
		run  func(*signalsEnv, *testing.T)
	}{
		{"who may ask", (*signalsEnv).access},
		{"the guide's HPAs, and a pause for a MIG change", (*signalsEnv).guide},
		{"queue of a Deployment", (*signalsEnv).queue},
		{"a pod that has failed holds up nothing, an exporter that is gone makes nothing zero", (*signalsEnv).failures},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(b, t) }) {
			return // the next part would only show the same failure again
		}
	}
}

type signalsEnv struct {
	world            *world.World
	reader, noRights *kubernetes.Clientset // service accounts with and without the right
}

func newSignalsEnv(t *testing.T) *signalsEnv {
	on := newEnv(t)
	s, err := story.Parse("signals", signalsStory)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w, err := world.Start(ctx, world.Options{Story: s, Binaries: on.binaries, Speed: slow, Log: on.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	b := &signalsEnv{world: w, reader: account(t, w, "reader"), noRights: account(t, w, "no-rights")}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gpuscale-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "chat", Name: "reader"}},
	}
	if err := w.Client().Create(ctx, binding); err != nil {
		t.Fatal(err)
	}
	return b
}

func account(t *testing.T, w *world.World, name string) *kubernetes.Clientset {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}}
	if err := w.Client().Create(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	file, err := w.Cluster().ServiceAccountKubeconfig(t.Context(), "chat", name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// custom asks the custom metrics API and returns values by object.
func custom(ctx context.Context, as *kubernetes.Clientset, path string) (map[string]float64, error) {
	answer := as.CoreV1().RESTClient().Get().AbsPath(path).Do(ctx)
	if err := answer.Error(); err != nil { // with the server's own words, which Raw's lacks
		return nil, err
	}
	body, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	var list custommetrics.MetricValueList // v1beta1's values and objects are spelt alike
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, item := range list.Items {
		if item.Timestamp.IsZero() {
			return nil, fmt.Errorf("%s has no timestamp", item.DescribedObject.Name)
		}
		out[item.DescribedObject.Name] = item.Value.AsApproximateFloat64()
	}
	return out, nil
}

func (b *signalsEnv) get(t *testing.T, path string) (map[string]float64, error) {
	return custom(t.Context(), b.reader, path)
}

func (b *signalsEnv) prometheus(t *testing.T) *prom.Client {
	t.Helper()
	client, err := prom.New(prom.Config{URL: b.world.PrometheusURL(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (b *signalsEnv) access(t *testing.T) {
	for _, path := range []string{customV2 + queueOf, customV1 + busyOf, externalV1 + "chat/queue_depth"} {
		if _, err := custom(t.Context(), b.noRights, path); !apierrors.IsForbidden(err) {
			t.Errorf("a service account without rights: %v, want 403", err)
		}
	}
	_, err := b.get(t, customV2+"chat/deployments.apps/vllm/no_such_thing")
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "no signal is called no_such_thing") {
		t.Errorf("an unknown signal: %v, want 404 with a sentence", err)
	}
	// Past the aggregator only its client certificate makes the headers count.
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // who it is does not matter here
	}}
	for _, path := range []string{customV2 + queueOf, "/metrics"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.world.AdapterAddress()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Remote-User", "system:admin")
		req.Header.Set("X-Remote-Group", "system:masters")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s with forged headers: %s %s, want 401 or 403", path, resp.Status, body)
		}
	}
}

// guide applies the HPAs of docs/hpa.md. Sixteen requests run on two replicas
// and none waits, so only requests_running asks for a third; its pod pends, and
// the autoscaler has mig-manager change a GPU, which pauses the exporter.
func (b *signalsEnv) guide(t *testing.T) {
	b.play(t, 16)
	for _, h := range guideHPAs(t) {
		if h.Namespace == zeroNamespace {
			continue // TestNeverLie has what it scales
		}
		if err := b.world.Client().Create(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	await.For(t, testenv.Patience, "requests_running raises replicas", func() error {
		h := b.hpa(t, "chat", "vllm")
		if average(h, "queue_depth") != 0 || average(h, "requests_running") <= 0 || h.Status.DesiredReplicas != 3 {
			return fmt.Errorf("%d replicas wanted, %s", h.Status.DesiredReplicas, metricsOf(h))
		}
		return nil
	})
	paused := false
	await.For(t, testenv.Patience, "a GPU is changed and the third replica serves", func() error {
		if n, ok := b.world.Caches.Node("gpu-a"); ok && strings.HasPrefix(n.Labels["nvidia.com/gpu.deploy.dcgm-exporter"], "paused") {
			paused = paused || b.world.Cluster().Processes().Find("gpuscale-exporter-gpu-a") == nil
		}
		if err := neverBelow(b.get(t, customV2+busyOf))(0.29); err != nil {
			t.Fatalf("during a MIG change: %v", err)
		}
		got, err := b.get(t, customV2+"chat/pods/*/requests_running")
		if err == nil && len(got) != 3 {
			err = fmt.Errorf("%d pods serve", len(got))
		}
		return err
	})
	if !paused {
		t.Error("the exporter was not seen to end for the MIG change")
	}
	await.For(t, testenv.Patience, "the exporter is back", func() error {
		_, err := b.get(t, customV2+"chat/pods/*/gpu_busy")
		return err
	})
	await.For(t, testenv.Patience, "gpu_busy per pod in the HPA", func() error {
		h := b.hpa(t, "search", "embed")
		if got := average(h, "gpu_busy"); math.Abs(got-0.3) > 0.001 || !active(h) {
			return fmt.Errorf("gpu_busy %v of %s", got, metricsOf(h))
		}
		return nil
	})
	await.For(t, testenv.Patience, "the share of a GPU in the HPA, and a second replica", func() error {
		h := b.hpa(t, "vision", "segment")
		// One of a GPU's seven slices, 0.7 busy; more than the target of 0.08.
		if got := average(h, "gpu_share"); math.Abs(got-0.1) > 0.002 || !active(h) || h.Status.DesiredReplicas != 2 {
			return fmt.Errorf("gpu_share %v, %d replicas wanted, of %s", got, h.Status.DesiredReplicas, metricsOf(h))
		}
		return nil
	})
}

// queue of a Deployment, in all three APIs.
func (b *signalsEnv) queue(t *testing.T) {
	b.play(t, 40)
	await.For(t, testenv.Patience, "the queue in both versions and as external metric", func() error {
		v1, err1 := b.get(t, customV1+queueOf)
		v2, err2 := b.get(t, customV2+queueOf)
		body, err3 := b.reader.CoreV1().RESTClient().Get().AbsPath(externalV1 + "chat/queue_depth").DoRaw(t.Context())
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		var list externalmetrics.ExternalMetricValueList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			t.Fatalf("%d external items, want exactly 1", len(list.Items))
		}
		e := list.Items[0].Value.AsApproximateFloat64()
		if v1["vllm"] < 1 || v1["vllm"] != v2["vllm"] || v2["vllm"] != e {
			return fmt.Errorf("v1beta1 %v, v1beta2 %v, external %v", v1, v2, e)
		}
		return nil
	})
}

// failures: a pod of the Deployment fails, as an evicted one, and stays there;
// at the same time the node's exporter dies. Both must first grow stale.
func (b *signalsEnv) failures(t *testing.T) {
	if _, err := b.get(t, customV2+busyOf); err != nil {
		t.Fatalf("gpu_busy before: %v", err)
	}
	if err := b.world.Cluster().KillProgram("gpuscale-exporter-gpu-a"); err != nil {
		t.Fatal(err)
	}
	pods, err := b.world.Kubernetes.CoreV1().Pods("chat").List(t.Context(), metav1.ListOptions{LabelSelector: "app=vllm", FieldSelector: "status.phase=Running"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatal(len(pods.Items), err)
	}
	victim := pods.Items[0].Name
	patch := []byte(`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory."}}`)
	if _, err := b.world.Kubernetes.CoreV1().Pods("chat").Patch(t.Context(), victim, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	// Its last value must not be missed when it is too old: the adapter believes what is
	// ten seconds old at most.
	metrics := b.prometheus(t)
	await.For(t, testenv.Patience, "the failed pod's last value is too old", func() error {
		if _, err := b.get(t, customV2+queueOf); err != nil {
			t.Fatal(err)
		}
		if err := neverBelow(b.get(t, customV2+busyOf))(0.29); err != nil {
			t.Fatal(err)
		}
		q := fmt.Sprintf("time() - max_over_time(timestamp(%s{pod=%q})[5m:1s]) > 12", metric.VLLMWaiting.Name, victim)
		v, err := metrics.Query(t.Context(), q, time.Time{})
		if err == nil && len(v) == 0 {
			err = errors.New("it is younger")
		}
		return err
	})
	p, err := b.world.Kubernetes.CoreV1().Pods("chat").Get(t.Context(), victim, metav1.GetOptions{})
	if err != nil || p.Status.Phase != corev1.PodFailed {
		t.Errorf("the failed pod is not there any more, so this shows nothing: %v %v", p.Status.Phase, err)
	}
	await.For(t, testenv.Patience, "gpu_busy is an error", func() error {
		got, err := b.get(t, customV2+busyOf)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%v, %w", got, err)
		}
		return nil
	})
	await.For(t, testenv.Patience, "the HPA on gpu_busy is blind and holds", func() error {
		if h := b.hpa(t, "search", "embed"); active(h) || h.Status.DesiredReplicas != 2 {
			return fmt.Errorf("%d replicas, %s", h.Status.DesiredReplicas, metricsOf(h))
		}
		return nil
	})
}

// neverBelow reports whether an answer, if there is one, has a value under least.
func neverBelow(got map[string]float64, err error) func(least float64) error {
	return func(least float64) error {
		if err != nil {
			return nil
		}
		for pod, v := range got {
			if v < least {
				return fmt.Errorf("%s has %v", pod, v)
			}
		}
		return nil
	}
}

// play sends requests that take half a minute of traffic time, all at once.
func (b *signalsEnv) play(t *testing.T, n int) {
	t.Helper()
	tr := trace.Trace{Name: "burst"}
	for range n {
		tr.Requests = append(tr.Requests, trace.Request{Context: 100, Generated: 1200})
	}
	if err := b.world.Gateway.Play(tr); err != nil {
		t.Fatal(err)
	}
}

func (b *signalsEnv) hpa(t *testing.T, namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	h, err := b.world.Kubernetes.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func active(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// average is what the HPA last saw of a metric per pod; -1 if it did not.
func average(h *autoscalingv2.HorizontalPodAutoscaler, metric string) float64 {
	for _, m := range h.Status.CurrentMetrics {
		switch {
		case m.Object != nil && m.Object.Metric.Name == metric && m.Object.Current.AverageValue != nil:
			return m.Object.Current.AverageValue.AsApproximateFloat64()
		case m.Pods != nil && m.Pods.Metric.Name == metric && m.Pods.Current.AverageValue != nil:
			return m.Pods.Current.AverageValue.AsApproximateFloat64()
		}
	}
	return -1
}

func metricsOf(h *autoscalingv2.HorizontalPodAutoscaler) string {
	text, _ := json.Marshal(map[string]any{"current": h.Status.CurrentMetrics, "conditions": h.Status.Conditions})
	return string(text)
}

// guided are recipes 1, 3, 4 and 5 of docs/hpa.md.
var guided = []string{"chat/vllm", "search/embed", "llm/llama", "vision/segment"}

// guideHPAs are their manifests, as a reader would paste them.
func guideHPAs(t *testing.T) (out []*autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "hpa.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		manifest, _, _ := strings.Cut(block, "```")
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		if yaml.UnmarshalStrict([]byte(manifest), h) == nil && slices.Contains(guided, h.Namespace+"/"+h.Name) {
			out = append(out, h)
		}
	}
	if len(out) != len(guided) {
		t.Fatalf("docs/hpa.md has %d of the HPAs %v", len(out), guided)
	}
	return out
}

// guideHPA is one of them.
func guideHPA(t *testing.T, namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	for _, h := range guideHPAs(t) {
		if h.Namespace == namespace && h.Name == name {
			return h
		}
	}
	t.Fatalf("docs/hpa.md has no HPA %s/%s", namespace, name)
	return nil
}

package chart

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

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

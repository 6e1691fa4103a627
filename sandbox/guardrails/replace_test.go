package guardrails

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

func fakeNodes() neighbours.Nodes {
	return neighbours.Nodes{
		Offers: corev1.ResourceList{
			"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
		},
		Labels: map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"},
	}
}

// play runs a fake until the test ends. Objects of these kinds are then deleted.
func (w *world) play(fake func(context.Context) error, kinds ...schema.GroupVersionKind) {
	w.fakes = append(w.fakes, kinds...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fake(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error("a fake: ", err)
		}
	})
}

// TestReplaceByWhatMakesNodes: a sick node of Cluster API is replaced in one step. The requested size never
// changes, no other node is removed, and the new node comes up without a pod that waits for it.
func TestReplaceByWhatMakesNodes(t *testing.T) {
	w := newWorld(t, setup{})
	w.must(w.InstallSources(t.Context(), neighbours.ClusterAPI()))
	target := w.objects("replaced-machines.yaml", "TENANT", w.namespace())[0]
	w.must(w.Admin.Create(t.Context(), target))
	w.play((&neighbours.Machines{Client: w.Admin, Nodes: fakeNodes()}).Run, neighbours.ClusterAPIKinds()...)
	w.pool("h100", 0, 4, func(p *v1alpha1.GPUNodePool) {
		p.Spec.Provider = v1alpha1.Provider{Scale: &v1alpha1.ScaleProvider{
			APIVersion: target.GetAPIVersion(), Kind: target.GetKind(), Namespace: target.GetNamespace(), Name: target.GetName(),
		}}
		p.Spec.ScaleDown.IdleAfter.Duration = 100 * time.Hour
	})
	w.until("the fleet", w.has("h100", 2))
	nodes := w.nodes("h100")
	sick, well := nodes[0], nodes[1]
	w.exporters.set(func() { w.exporters.sick[sick.Name] = true })
	w.reconcile()
	w.pass(11 * time.Minute)
	w.reconcile()
	w.pass(plan.RemoveDelay) // time since its cordon
	w.until("another node is there", func() error {
		w.must(w.Admin.Get(t.Context(), client.ObjectKeyFromObject(target), target))
		if n, _, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); n != 2 {
			t.Fatalf("%d replicas: the size that is asked for has changed", n)
		}
		for _, n := range w.nodes("h100") {
			if n.UID == sick.UID {
				return errors.New("the sick one is still there")
			}
		}
		return w.has("h100", 2)()
	})
	w.reconciles(5)
	if n := w.node(well.Name); n.UID != well.UID || n.Spec.Unschedulable {
		t.Errorf("%s, which is well, was touched", well.Name)
	}
	for _, n := range w.nodes("h100") {
		require.NoError(t, w.untouched(n.Name))
	}
	require.NoError(t, w.has("h100", 2)())
}

package guardrails

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestLargeNodesAreKeptForLargePods: a large node is requested for a large pod, and small nodes for older
// small pods. The large node's GPUs come first. kube-scheduler leaves them to the large pod, because that pod
// is nominated for the node.
func TestLargeNodesAreKeptForLargePods(t *testing.T) {
	w := newWorld(t, setup{provider: func(p pools.Provider) pools.Provider {
		p.(pools.Providers).GRPC.(*nodegroups.Maker).ExternalBoot = true
		return p
	}})
	anywhere := func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = nil }
	w.pool("large", 0, 2)
	w.pool("small", 0, 4, func(p *v1alpha1.GPUNodePool) {
		p.Spec.Template.GPUs, p.Spec.PricePerHour = 1, ptr.To(resource.MustParse("5"))
	})
	w.work("few", "", 4, 1, anywhere)
	w.await("they wait", w.waits("few", 4))
	w.work("many", "", 1, perNode, anywhere)
	w.await("it waits", w.waits("many", 1))

	again := func(what string, ok func() error) { // nodes need not be ready
		t.Helper()
		await.For(t, testenv.Patience, what, func() error {
			w.pass(time.Second)
			w.must(w.once())
			return ok()
		})
	}
	again("the large pod is nominated for the large node", func() error {
		large, small := w.nodes("large"), w.nodes("small")
		if at := w.pods("many")[0].Status.NominatedNodeName; len(large) != 1 || len(small) != 4 || at != large[0].Name {
			return fmt.Errorf("%d large nodes and %d small ones; it is nominated for %q", len(large), len(small), at)
		}
		return nil
	})
	w.boots("large")
	again("it runs", w.runs("many", 1))
	w.must(w.runs("few", 0)())
	w.boots("small")
	again("all run", w.runs("few", 4))
	if n := len(w.nodes("large")); n != 1 {
		t.Errorf("%d large nodes for one pod", n)
	}
}

// boots makes KWOK manage the nodes of a pool. Then the nodes get their GPUs, as from a device plugin on a
// ready node.
func (w *world) boots(pool string) {
	w.t.Helper()
	gpus := resource.NewQuantity(int64(w.get(pool).Spec.Template.GPUs), resource.DecimalSI)
	for _, n := range w.nodes(pool) {
		w.patchNode(n.Name, func(n *corev1.Node) { n.Annotations["kwok.x-k8s.io/node"] = "fake" })
	}
	w.await("they are ready", w.has(pool, len(w.nodes(pool))))
	for _, n := range w.nodes(pool) {
		before := n.DeepCopy()
		n.Status.Capacity[partition.GPUResource], n.Status.Allocatable[partition.GPUResource] = *gpus, *gpus
		w.must(w.Admin.Status().Patch(w.t.Context(), &n, client.MergeFrom(before)))
	}
}

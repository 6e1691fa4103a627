package guardrails

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// TestBadAnnotationsStopNothingElse: objects with invalid annotations, as large as the API server allows, are
// left alone. Everything else goes on.
func TestBadAnnotationsStopNothingElse(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 2, 4)
	w.until("the fleet", w.has("h100", 2))
	nonsense := strings.Repeat("{", 200<<10)
	w.work("odd", "h100", 1, 1, func(p *corev1.PodTemplateSpec) {
		p.Annotations[v1alpha1.EvictFromAnnotation] = nonsense
	})
	w.await("it runs", w.runs("odd", 1))
	at := w.pods("odd")[0].Spec.NodeName
	w.exporters.set(func() { w.exporters.sick[at] = true })
	for _, key := range []string{"gpuscale.io/mig-layout", "gpuscale.io/mig-agent"} {
		w.patchNode(at, func(n *corev1.Node) { n.Annotations = map[string]string{key: nonsense, "kwok.x-k8s.io/node": "fake"} })
		w.reconciles(2)
	}
	w.pass(10 * 60 * 1e9)
	w.reconciles(2)
	if w.pods("odd")[0].DeletionTimestamp != nil {
		t.Error("a pod with unreadable annotations was moved")
	}
	w.work("train", "h100", 2, perNode)
	w.await("it waits", w.waits("train", 1))
	w.until("it is served", w.has("h100", 3))
	if got := verdict(w, plan.KindNode, at).Reason; got != plan.NodeSick {
		t.Errorf("the node's reason is %s", got)
	}
}

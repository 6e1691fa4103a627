package rails

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// TestBadPoolsStopNobody: what cannot be is refused by the API server; what can only
// be seen by looking is a condition with field and remedy; and the one pool that is
// as it should be goes on.
func TestBadPoolsStopNobody(t *testing.T) {
	w := newWorld(t, setup{})
	scale := func(name string) func(*v1alpha1.GPUNodePool) {
		return func(p *v1alpha1.GPUNodePool) {
			p.Spec.Provider = v1alpha1.Provider{Scale: &v1alpha1.ScaleProvider{APIVersion: "example.org/v1", Kind: "Herd", Namespace: w.namespace(), Name: name}}
		}
	}
	w.served("example.org/v1", "Herd")
	for name, c := range map[string]struct {
		change func(*v1alpha1.GPUNodePool)
		want   string
	}{
		"min above max":     {func(p *v1alpha1.GPUNodePool) { p.Spec.Min = 9 }, "min must not be above max"},
		"a negative price":  {func(p *v1alpha1.GPUNodePool) { p.Spec.PricePerHour = ptr.To(resource.MustParse("-1")) }, "must not be below 0"},
		"a huge annotation": {func(p *v1alpha1.GPUNodePool) { p.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20)} }, "annotations"},
	} {
		p := w.draft("bad", 0, 4)
		c.change(p)
		if err := w.admin.Create(t.Context(), p, client.DryRunAll); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	w.pool("nowhere", 0, 4, scale("nowhere"))
	w.pool("profile", 0, 4, func(p *v1alpha1.GPUNodePool) { p.Spec.MIG = &v1alpha1.MIG{AllowedProfiles: []string{"9g.99gb"}} })
	w.pool("good", 0, 4)
	w.work("train", "good", 1, perNode)
	w.await("it waits", w.waits("train", 1))
	w.until("the good one grows", w.has("good", 1))
	for pool, words := range map[string][]string{
		"nowhere": {"False TargetNotFound", "spec.provider.scale.name", "create it"},
		"profile": {"False", "spec.mig.allowedProfiles[0]", "9g.99gb"},
		"good":    {"True"},
	} {
		w.until("pool "+pool+" says what is wrong", func() error {
			c := w.condition(pool, "Valid")
			for _, word := range words {
				if !strings.Contains(c, word) {
					return fmt.Errorf("%q lacks %q", c, word)
				}
			}
			return nil
		})
	}
}

// TestBadAnnotationsStopNobody: as large as the API server takes them, and nonsense:
// whatever they are on is left alone, everything else goes on.
func TestBadAnnotationsStopNobody(t *testing.T) {
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
		w.turns(2)
	}
	w.pass(10 * 60 * 1e9)
	w.turns(2)
	if w.pods("odd")[0].DeletionTimestamp != nil {
		t.Error("a pod was moved of which nobody can read when it may be")
	}
	w.work("train", "h100", 2, perNode)
	w.await("it waits", w.waits("train", 1))
	w.until("it is served", w.has("h100", 3))
	if got := verdict(w, plan.KindNode, at).Reason; got != plan.NodeSick {
		t.Errorf("the node's reason is %s", got)
	}
}

package pools

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

func labelled(name, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NodePoolLabel: pool}}}
}

// TestFixed: the nodes with the label are the pool; no call changes the nodes or counts as a
// failure.
func TestFixed(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(labelled("a", "p"), labelled("b", "p"), labelled("c", "q")).Build()
	pool := testPool()
	pool.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	h := NewHistory(time.Now)
	p := Providers{Fixed: NewFixed(c), History: h}
	if l, err := p.List(t.Context(), pool); err != nil || l.Target != 2 || l.Unnamed || len(l.Going) > 0 {
		t.Errorf("listing %+v, %v", l, err)
	}
	node := labelled("a", "p")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"growing": p.SetSize(t.Context(), pool, 3), "as it is": p.SetSize(t.Context(), pool, 2),
		"removing": p.Delete(t.Context(), pool, node),
	} {
		if !errors.Is(err, ErrFixed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Replace(t.Context(), pool, node); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("replacing: %v", err)
	}
	if l, err := p.List(t.Context(), pool); err != nil || l.Target != 2 {
		t.Errorf("afterwards: %+v, %v", l, err)
	}
	if l := h.Seen(pool, 2, nil); l.Failures != 0 {
		t.Errorf("%d failures of a provider that is asked for nothing", l.Failures)
	}
}

// TestFixedPoolHasNoHistory: the values in its status are from a former provider.
func TestFixedPoolHasNoHistory(t *testing.T) {
	pool := testPool()
	pool.Status.Backoff = &v1alpha1.Backoff{Failures: 3, UntilTime: metav1.NewTime(time.Now().Add(time.Hour))}
	p := Providers{History: NewHistory(time.Now)}
	if l := p.Learn(pool, 1, nil); l.Failures != 3 {
		t.Fatalf("a pool that is made: %+v", l)
	}
	pool.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	if l := p.Learn(pool, 1, nil); l != (Learned{}) {
		t.Errorf("%+v", l)
	}
}

package observe

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// TestFixedPoolSize: bounds and target of a fixed pool are its size, also when nodes get
// or lose the label.
func TestFixedPoolSize(t *testing.T) {
	p := pool("p")
	p.Spec.Min, p.Spec.Max = 0, 0
	p.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	first, second := node("n-1", halves(2)), node("n-2", halves(2))
	w := newWorld(t, p, first)
	w.o.o.Pools = pools.Providers{Fixed: pools.NewFixed(w.client), History: pools.NewHistory(func() time.Time { return start })}
	want := func(after time.Duration, size int) {
		t.Helper()
		o := w.at(after)
		if len(o.Pools) != 1 {
			t.Fatalf("pools %+v, invalid %v", o.Pools, o.Invalid)
		}
		if p := o.Pools[0]; !p.Fixed || p.Size != size || p.Target != size || p.Min != size || p.Max != size {
			t.Errorf("fixed %v, size %d, target %d, min %d, max %d, want %d", p.Fixed, p.Size, p.Target, p.Min, p.Max, size)
		}
		if o.GrowOnly["p"] {
			t.Error("it is in GrowOnly")
		}
	}
	want(0, 1)
	if err := w.client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	want(time.Second, 2)
	delete(second.Labels, v1alpha1.NodePoolLabel)
	if err := w.client.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	want(2*time.Second, 1)
}

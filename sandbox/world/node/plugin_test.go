package node

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestCapacityOfALayoutThatIsGone: the kubelet counts devices for five minutes after their plugin no longer
// has them. It allocates none of them.
func TestCapacityOfALayoutThatIsGone(t *testing.T) {
	const small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
	table, _ := mig.ForModel("H100-80GB")
	sevenths, err := mig.ParseLayout(table, "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6")
	require.NoError(t, err)
	halves, err := mig.ParseLayout(table, "3g@0 3g@4")
	require.NoError(t, err)
	now := time.Unix(0, 0)
	m, err := New(Spec{Name: "a", Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1, Layouts: []mig.Layout{sevenths}}, now)
	require.NoError(t, err)
	m.Allocatable(now)
	require.NoError(t, m.lay(&m.gpus[0], halves))
	for after, want := range []int{7, 7, 7, 7, 7, 7, 0} {
		at := now.Add(time.Duration(after) * time.Minute)
		allocatable, capacity := m.Allocatable(at), m.Capacity(at)
		if allocatable[small] != 0 || allocatable[large] != 2 || capacity[small] != want || capacity[large] != 2 {
			t.Errorf("after %d minutes: allocatable %v, capacity %v; want %d of the old devices", after, allocatable, capacity, want)
		}
	}
}

package node

import (
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestAKubeletListsPodsWithoutDevices: an answer without any pod is that of a kubelet that has just started, which the
// exporter does not believe for 20 seconds.
func TestAKubeletListsPodsWithoutDevices(t *testing.T) {
	now := time.Unix(0, 0)
	m, err := New(Spec{Name: "a", Product: "NVIDIA-L40S", GPUs: 1}, now)
	require.NoError(t, err)
	k := &Kubelet{lock: &sync.Mutex{}, machine: m}
	train := Pod{Namespace: "batch", Name: "train", UID: "1", Containers: []Container{{Name: "main", Requests: map[string]int{wholeGPU: 1}}}}
	for devices, bound := range [][]Pod{nil, {train}} {
		m.Sync(bound, now)
		answer, err := k.List(t.Context(), nil)
		require.NoError(t, err)
		got := 0
		for _, p := range answer.PodResources {
			for _, c := range p.Containers {
				got += len(c.Devices)
			}
		}
		if len(answer.PodResources) != devices+1 || got != devices {
			t.Errorf("%d pods with %d devices: %v", len(answer.PodResources), got, answer.PodResources)
		}
	}
}

package act

import (
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// TestPodIndex: pods are found by their keys, and those with GPUs by their node.
func TestPodIndex(t *testing.T) {
	gpu := demand.Demand{Vendor: "nvidia", GPUs: 1}
	r := newReconcile(plan.Snapshot{Pods: []plan.Pod{
		{Namespace: "chat", Name: "b", UID: "2", Node: "n", Demand: gpu}, {Namespace: "chat", Name: "a", UID: "1", Node: "n", Demand: gpu},
		{Namespace: "chat", Name: "plain", Node: "n"}, {Namespace: "chat", Name: "c", Node: "m", Demand: gpu}, {Namespace: "chat", Name: "waits", Demand: gpu},
	}}, plan.DefaultPolicy())
	if got, want := r.podsOn("n"), []string{"chat/a 1", "chat/b 2"}; !slices.Equal(got, want) {
		t.Errorf("on n are %v, want %v", got, want)
	}
	if p, ok := r.pod("chat/c"); !ok || p.Node != "m" {
		t.Errorf("chat/c is %v", p)
	}
	if p, ok := r.pod("chat/d"); ok || p != nil {
		t.Errorf("there is no chat/d: %v", p)
	}
}

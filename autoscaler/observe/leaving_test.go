package observe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// TestNotices: an interruption comes two minutes after its notice; a recommendation
// has no time, and closes the node all the same; whoever has no providerID cannot be
// meant.
func TestNotices(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	o := New(Options{})
	o.said = map[string]said{}
	var out plan.Pool
	o.heed(&out, &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: "spot"}}, pools.Listing{Leaving: []pools.Leaving{
		{Instance: "i-1", Kind: pools.Interruption, At: at}, {Instance: "i-2", Kind: pools.Rebalance, At: at}, {Instance: "", Kind: pools.Interruption, At: at},
	}})
	for providerID, want := range map[string]struct {
		noticed bool
		at      time.Time
	}{
		"aws:///zone/i-1": {true, at.Add(2 * time.Minute)},
		"aws:///zone/i-2": {true, time.Time{}},
		"aws:///zone/i-3": {},
		"":                {},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.NodePoolLabel: "spot"}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		if got := o.leavesAt(n); !got.Equal(want.at) || o.noticed(n) != want.noticed {
			t.Errorf("%q: noticed %v, leaves at %s; want %+v", providerID, o.noticed(n), got, want)
		}
	}
}

// TestDrainsAreReadBack: a restart finds why a node drains, and does not make a sick
// or an interrupted one of it that it is not.
func TestDrainsAreReadBack(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for reason, want := range map[string]plan.Reason{
		"NodeSick": plan.NodeSick, "NodeInterrupted": plan.NodeInterrupted, "NodeUnderused": plan.NodeUnderused, "NodeEvil": plan.NodeUnderused,
	} {
		text := v1alpha1.Drain{Started: at, Deadline: at.Add(time.Minute), Reason: reason}.String()
		got := draining(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.DrainAnnotation: text}}})
		if got == nil || got.Reason != want || !got.Started.Equal(at) {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

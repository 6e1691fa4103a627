package act

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// withAgent has pool p cut by agents, and instance 0 of its card held.
func withAgent(t *testing.T) (*world, plan.Action) {
	w := newWorld(t, nil)
	w.snap.Pools = []plan.Pool{{Name: "p", MIG: plan.PoolMIG{Repartition: true, KeepsBusy: true}}}
	card := &w.snap.Nodes[0].Cards[0]
	card.UUID, card.Instances[0].Holder = "GPU-a", "ns/busy"
	edit(w, testNode(), func(n *corev1.Node) {
		report := partition.Report{At: start, Cards: []partition.CardReport{{UUID: "GPU-a"}}}
		n.Annotations = map[string]string{partition.LayoutAnnotation: report.String()}
	})
	cut := w.cut()
	cut.Target = layout(t, "1g.10gb@0 3g.40gb@4")
	return w, cut
}

// TestRepartitionByAgent: the record is for the agent, which may begin once the
// pods have been looked at; mig-manager hears of nothing.
func TestRepartitionByAgent(t *testing.T) {
	w, cut := withAgent(t)
	w.want(Done, cut)
	n := w.node()
	r, ok, err := partition.RecordOf(n)
	if !ok || err != nil || r.Actuator != partition.ActuatorAgent || !r.Selected || r.UUID != "GPU-a" || !r.Cordoned || !n.Spec.Unschedulable {
		t.Fatalf("record %+v %v %v, unschedulable %v", r, ok, err, n.Spec.Unschedulable)
	}
	if n.Labels[partition.ConfigLabel] != "" {
		t.Errorf("labels %v", n.Labels)
	}
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap for mig-manager: %v", err)
	}
	// It cannot, and has put the card back: the record and the cordon go.
	n.Annotations[partition.AgentAnnotation] = partition.Answer{ID: "op", State: partition.AgentRestored, Message: "busy"}.String()
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.want(Done, plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"})
	if n := w.node(); n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" {
		t.Errorf("after going back: %v %v", n.Spec, n.Annotations)
	}
}

// TestAgentKeepsBusy: an agent is not asked to destroy what a pod holds, nor is
// mig-manager asked for a card that anybody holds.
func TestAgentKeepsBusy(t *testing.T) {
	w, cut := withAgent(t)
	cut.Target = layout(t, "3g.40gb@0 3g.40gb@4")
	w.want(Refused, cut)
	w, cut = withAgent(t)
	w.snap.Pools[0].MIG.KeepsBusy = false
	w.want(Refused, cut)
	if n := w.node(); n.Spec.Unschedulable {
		t.Error("a refusal left the node cordoned")
	}
}

// TestAgentIsLetBeginByResume: killed after the record, the next leader lets the
// agent begin, unless a pod came meanwhile.
func TestAgentIsLetBeginByResume(t *testing.T) {
	for _, came := range []bool{false, true} {
		w, cut := withAgent(t)
		w.want(Done, cut)
		n := w.node()
		r, _, _ := partition.RecordOf(n)
		r.Selected = false
		n.Annotations[partition.RecordAnnotation] = r.String()
		if err := w.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if came {
			if err := w.client.Create(t.Context(), gpuPod("late", "p-1")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.actor.Resume(t.Context(), start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		r, ok, _ := partition.RecordOf(w.node())
		if ok == came || ok && !r.Selected {
			t.Errorf("pod came: %v; record %v, selected %v", came, ok, r.Selected)
		}
	}
}

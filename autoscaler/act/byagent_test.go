package act

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// withAgent is a world whose pool p is repartitioned by agents and whose instance 0 is
// allocated.
func withAgent(t *testing.T) (*world, plan.Action) {
	w := newWorld(t, nil)
	w.snap.Pools = []plan.Pool{{Name: "p", MIG: plan.PoolMIG{Repartition: true, KeepsBusy: true}}}
	device := &w.snap.Nodes[0].GPUs[0]
	device.UUID, device.Instances[0].AllocatedTo = "GPU-a", "ns/busy"
	edit(w, testNode(), func(n *corev1.Node) {
		report := partition.Report{At: start, GPUs: []partition.GPUReport{{UUID: "GPU-a"}}}
		n.Annotations = map[string]string{partition.LayoutAnnotation: report.String()}
	})
	repartition := w.repartition()
	repartition.Target = layout(t, "1g.10gb@0 3g.40gb@4")
	return w, repartition
}

// TestRepartitionByAgent: the record selects the agent, which may begin once the pods
// are checked; mig-manager gets no config and no label.
func TestRepartitionByAgent(t *testing.T) {
	w, repartition := withAgent(t)
	w.want(Done, repartition)
	n, r := w.node(), w.record()
	if r.Actuator != partition.ActuatorAgent || !r.Selected || r.UUID != "GPU-a" || !r.Cordoned || !n.Spec.Unschedulable {
		t.Fatalf("record %+v, unschedulable %v", r, n.Spec.Unschedulable)
	}
	if n.Labels[partition.ConfigLabel] != "" {
		t.Errorf("labels %v", n.Labels)
	}
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap for mig-manager: %v", err)
	}
	// The agent fails and restores the GPU: the record and the cordon are removed.
	n.Annotations[partition.AgentAnnotation] = partition.Answer{ID: "op", State: partition.AgentRestored, Message: "busy"}.String()
	w.must(w.client.Update(t.Context(), n))
	w.want(Done, plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"})
	w.inService()
}

// TestAgentKeepsBusy: an agent may not destroy allocated instances, mig-manager may not
// repartition a GPU with any allocation.
func TestAgentKeepsBusy(t *testing.T) {
	w, repartition := withAgent(t)
	repartition.Target = layout(t, "3g.40gb@0 3g.40gb@4")
	w.want(Refused, repartition)
	w, repartition = withAgent(t)
	w.snap.Pools[0].MIG.KeepsBusy = false
	w.want(Refused, repartition)
	w.inService()
}

// TestAgentIsLetBeginByResume: if the leader is killed after writing the record, the next
// one lets the agent begin, unless a pod was bound meanwhile.
func TestAgentIsLetBeginByResume(t *testing.T) {
	for _, came := range []bool{false, true} {
		w, repartition := withAgent(t)
		w.want(Done, repartition)
		n, r := w.node(), w.record()
		r.Selected = false
		n.Annotations[partition.RecordAnnotation] = r.String()
		w.must(w.client.Update(t.Context(), n))
		if came {
			w.must(w.client.Create(t.Context(), gpuPod("late", "p-1")))
		}
		w.must(w.actor.Resume(t.Context(), start.Add(time.Second)))
		r, ok, _ := partition.RecordOf(w.node())
		if ok == came || ok && !r.Selected {
			t.Errorf("pod came: %v; record %v, selected %v", came, ok, r.Selected)
		}
	}
}

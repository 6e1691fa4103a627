package act

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

var (
	asSevenths = map[string]string{"nvidia.com/mig-1g.10gb": "7"}
	asHalves   = map[string]string{"nvidia.com/mig-3g.40gb": "2"}
)

func TestRepartitionThatSucceeds(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.repartition())
	n, r := w.node(), w.record()
	if !r.Cordoned || !n.Spec.Unschedulable {
		t.Fatalf("record %+v, unschedulable %v", r, n.Spec.Unschedulable)
	}
	if n.Labels[contract.ConfigLabel] != r.Config || n.Labels[contract.StateLabel] != "" {
		t.Errorf("labels %v, want config %s and no answer", n.Labels, r.Config)
	}
	c := w.configs()
	if layout := c.Layout(r.Config, 1); layout == nil || layout[0].Counts["3g.40gb"] != 2 {
		t.Errorf("config %s: %v", r.Config, layout)
	}
	if c.Layout(r.Previous, 1) == nil {
		t.Errorf("the config to go back to, %s, is not published", r.Previous)
	}

	for _, step := range []struct {
		state   string
		offered map[string]string
		want    plan.Phase
	}{
		{contract.StatePending, nil, plan.PhasePending},
		{contract.StateSuccess, asSevenths, plan.PhasePending}, // the device plugin lags
		{contract.StateSuccess, asHalves, plan.PhaseSucceeded},
	} {
		w.answer(step.state, step.offered)
		if got := partition.OperationOf(w.node()); got.Phase != step.want || !got.Target.Equal(layout(t, "3g.40gb@0 3g.40gb@4")) {
			t.Errorf("%s %v: %s to %s, want %s", step.state, step.offered, got.Phase, got.Target, step.want)
		}
		if step.want == plan.PhasePending {
			w.want(Refused, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
		}
	}
	w.want(Refused, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "another"})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	w.inService()
	before := w.writes
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	if w.writes != before {
		t.Error("a second uncordon wrote again")
	}
}

func TestRepartitionThatFailsIsUndone(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.repartition())
	w.answer(contract.StateFailed, asSevenths)
	if op := partition.OperationOf(w.node()); op.Phase != plan.PhaseFailed {
		t.Fatalf("phase %s", op.Phase)
	}
	undo := plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"}
	w.want(Waiting, undo)
	n := w.node()
	r := w.record()
	if n.Labels[contract.ConfigLabel] != r.Previous || r.Undo == nil || !n.Spec.Unschedulable {
		t.Fatalf("labels %v, record %+v", n.Labels, r)
	}
	if op := partition.OperationOf(n); op.Phase != plan.PhaseFailed {
		t.Errorf("phase %s during the rollback: the planner must repeat it", op.Phase)
	}
	writes := w.writes
	w.want(Waiting, undo)
	if w.writes != writes {
		t.Error("wrote again while mig-manager works")
	}
	// mig-manager fails again. It acts on a change of the label only, and is retried
	// after a pause.
	w.answer(contract.StateFailed, asSevenths)
	writes = w.writes
	w.want(Waiting, undo)
	if w.writes != writes {
		t.Error("tried again at once")
	}
	w.snap.Now = w.snap.Now.Add(10 * time.Second)
	w.want(Waiting, undo)
	if got := w.node().Labels[contract.ConfigLabel]; got == r.Previous {
		t.Error("the label did not move")
	}
	w.answer(contract.StateSuccess, asSevenths)
	w.want(Done, undo)
	w.inService()
	w.want(Done, undo)
}

func TestForeignCordonStays(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.want(Done, w.repartition())
	w.answer(contract.StateSuccess, asHalves)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	if !w.node().Spec.Unschedulable {
		t.Error("a cordon that is not ours was lifted")
	}
	// The GPU Operator, which is upgrading the driver, takes over our cordon. With this annotation it would not
	// uncordon the node at the end, so the annotation is removed.
	const before = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
	for state, left := range map[string]bool{"upgrade-required": false, "pod-deletion-required": true, "upgrade-failed": true, "upgrade-done": false} {
		w := newWorld(t, nil)
		w.want(Done, w.repartition())
		edit(w, testNode(), func(n *corev1.Node) {
			n.Labels["nvidia.com/gpu-driver-upgrade-state"], n.Annotations[before] = state, "true"
		})
		w.answer(contract.StateSuccess, asHalves)
		w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
		if n := w.node(); n.Spec.Unschedulable != left || n.Annotations[before] != "" || n.Annotations[contract.RecordAnnotation] != "" {
			t.Errorf("%s: cordoned %v, annotations %v", state, n.Spec.Unschedulable, n.Annotations)
		}
		w = newWorld(t, nil)
		edit(w, testNode(), func(n *corev1.Node) { n.Labels["nvidia.com/ofed-driver-upgrade-state"] = state })
		if r := w.do(w.repartition()); (r.Outcome == Refused) != (state == "pod-deletion-required") {
			t.Errorf("%s: %s, %v", state, r.Outcome, r.Err)
		}
	}
	// NVSentinel takes over our cordon too: an uncordon by another client ends its quarantine. With this annotation it
	// would not uncordon the node.
	const found = "quarantineHealthEventCordonPreExisting"
	w = newWorld(t, nil)
	w.want(Done, w.repartition())
	edit(w, testNode(), func(n *corev1.Node) {
		n.Annotations["quarantineHealthEventIsCordoned"], n.Annotations[found] = "True", "True"
	})
	w.answer(contract.StateSuccess, asHalves)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[found] != "" || n.Annotations[contract.RecordAnnotation] != "" {
		t.Errorf("quarantined: cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// TestPodOfTheSameNameCameMeanwhile: a StatefulSet's next pod has the name of the last one and may
// have another instance.
func TestPodOfTheSameNameCameMeanwhile(t *testing.T) {
	for _, byAgent := range []bool{false, true} {
		w, repartition := withAgent(t)
		if !byAgent {
			w = newWorld(t, nil)
			repartition = w.repartition()
		}
		w.must(w.client.Create(t.Context(), replica("web-0", "p-1")))
		seen := plan.Pod{Namespace: "ns", Name: "web-0", UID: "uid-web-0", Node: "p-1"}
		seen.Demand.GPUs = 1
		earlier := seen
		earlier.UID = "another"
		w.snap.Pods = []plan.Pod{earlier}
		if r := w.do(repartition); r.Outcome != Done {
			t.Errorf("by agent %v: %s, %v", byAgent, r.Outcome, r.Err)
		}
		w.must(w.resume(start.Add(settleDelay)))
		w.inService()
		w.snap.Pods = []plan.Pod{seen}
		w.want(Done, repartition)
	}
}

// TestResume: the label of a new config is set after ConfigDelay, by the replica that leads then. This holds even if
// the record was not written, the process ended, and the second attempt finds the config.
func TestResume(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
	w.conflicts = retry.DefaultRetry.Steps
	w.want(Refused, w.repartition())
	w.actor = New(*w.actor.o)
	w.want(Done, w.repartition())
	resume := func(after time.Duration, want bool) {
		t.Helper()
		w.must(w.resume(start.Add(after)))
		if got := w.node().Labels[contract.ConfigLabel] == w.record().Config; got != want {
			t.Errorf("after %s: selected %v, want %v", after, got, want)
		}
	}
	resume(59*time.Second, false)
	resume(6*time.Minute, false) // overdue: the planner rolls it back
	resume(time.Minute, true)
	writes := w.writes
	resume(2*time.Minute, true)
	if w.writes != writes {
		t.Error("resumed twice")
	}
}

// TestEndsBeforeTheLabel: an operation whose config was never selected ends without mig-manager: by a rollback, or
// because its node was uncordoned by hand and is in use again.
func TestEndsBeforeTheLabel(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"undone": func(w *world) {
			w.want(Done, plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"})
		},
		"uncordoned by hand": func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { n.Spec.Unschedulable = false })
			w.must(w.resume(start.Add(time.Minute)))
		},
	} {
		w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
		w.want(Done, w.repartition())
		end(w)
		w.inService()
		if got := w.node().Labels[contract.ConfigLabel]; got != "" {
			t.Errorf("%s: %s was selected", name, got)
		}
	}
}

// TestTidyKeepsWhatIsUsed: only configs that no node uses are removed.
func TestTidyKeepsWhatIsUsed(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.repartition())
	used := w.record()
	cm, c := w.configMap()
	for i := range 200 {
		c.MIGConfigs[fmt.Sprintf("gpuscale-%010d", i)] = c.MIGConfigs[used.Config]
	}
	c.MIGConfigs["all-disabled"] = c.MIGConfigs[used.Config]
	cm.Data[partition.ConfigKey] = c.String()
	w.must(w.client.Update(t.Context(), cm))
	w.must(w.resume(start.Add(2 * tidyEvery)))
	c = w.configs()
	for _, name := range []string{used.Config, used.Previous, "all-disabled"} {
		if _, ok := c.MIGConfigs[name]; !ok {
			t.Errorf("config %s is gone", name)
		}
	}
	if n := len(c.MIGConfigs); n != 64+3 {
		t.Errorf("%d configs are left, want 64 unused ones and three", n)
	}
}

// TestRepartitionKeepsTheDriversNames: the config has the names that the node advertises, on all
// GPUs.
func TestRepartitionKeepsTheDriversNames(t *testing.T) {
	w, action := ofGB200(t, "3g@0", "3g@0 3g@4")
	w.answer(contract.StateSuccess, map[string]string{"nvidia.com/mig-3g.95gb": "3"})
	w.want(Done, action)
	each := partition.GPULayout{MIG: true, Counts: map[string]int{"3g.95gb": 2}}
	if got := w.configs().Layout(w.record().Config, 2); !reflect.DeepEqual(got, partition.NodeLayout{each, each}) {
		t.Errorf("layout %v", got)
	}
}

// ofGB200 is a world whose node has two GPUs: 0 has two 3g instances, 1 is repartitioned.
func ofGB200(t *testing.T, before, target string) (*world, plan.Action) {
	t.Helper()
	w := newWorld(t, nil)
	table, _ := mig.ForModel("GB200-186GB")
	model, _ := gpu.ParseProduct("GB200-186GB")
	w.snap.Nodes[0].GPUs = nil
	parse := func(text string) mig.Layout {
		l, err := mig.ParseLayout(table, text)
		w.must(err)
		return l
	}
	for i, l := range []mig.Layout{parse("3g@0 3g@4"), parse(before)} {
		c := plan.GPU{Device: gpu.Device{Index: i, Model: model}, MIG: true, AllocationKnown: true}
		for _, p := range l {
			c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
		}
		w.snap.Nodes[0].GPUs = append(w.snap.Nodes[0].GPUs, c)
	}
	action := w.repartition()
	action.GPU, action.Model, action.Before, action.Target = 1, model.Name, parse(before), parse(target)
	return w, action
}

// TestOrderSettles: mig-manager is ordered plan.RemoveDelay after the cordon at the earliest. The
// scheduler may have chosen the node before it observed the cordon, and that pod's binding arrives
// within that time: it ends the operation.
func TestOrderSettles(t *testing.T) {
	for name, c := range map[string]struct{ bound, mounted bool }{
		"a binding in flight": {bound: true}, "none": {}, "a binding in flight, configs that are mounted": {bound: true, mounted: true}, "mounted": {mounted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, bound := newWorld(t, nil), c.bound
			if c.mounted { // by an operation before
				for _, a := range []plan.Action{w.repartition(), {Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"}} {
					if r := w.do(a); r.Outcome != Done {
						t.Fatal(r.Err)
					}
				}
				w.inService()
			}
			if r := w.do(w.repartition()); r.Outcome != Done {
				t.Fatal(r.Err)
			}
			if n := w.node(); !n.Spec.Unschedulable || n.Labels[contract.ConfigLabel] != "" {
				t.Fatalf("cordoned %v, labels %v: mig-manager works already", n.Spec.Unschedulable, n.Labels)
			}
			w.must(w.resume(start.Add(plan.RemoveDelay - time.Second)))
			if got := w.node().Labels[contract.ConfigLabel]; got != "" {
				t.Fatalf("%s was selected before the cordon has settled", got)
			}
			if bound {
				w.must(w.client.Create(t.Context(), gpuPod("late", "p-1")))
			}
			w.must(w.resume(start.Add(plan.RemoveDelay)))
			if got := w.node().Labels[contract.ConfigLabel]; (got == "") != bound {
				t.Errorf("label %q", got)
			}
			if bound {
				w.inService()
			}
		})
	}
}

// TestRefusedRepartitions: nothing is written, and the node is not cordoned.
func TestRefusedRepartitions(t *testing.T) {
	reporting := func(text string) func() (*world, plan.Action) {
		return func() (*world, plan.Action) {
			w, action := withAgent(t)
			edit(w, testNode(), func(n *corev1.Node) { n.Annotations = map[string]string{contract.LayoutAnnotation: text} })
			return w, action
		}
	}
	for name, begin := range map[string]func() (*world, plan.Action){
		// mig-parted would destroy the instances and report success.
		"an uncertain name": func() (*world, plan.Action) {
			w, action := ofGB200(t, "3g@0", "7g@0")
			w.answer(contract.StateSuccess, map[string]string{"nvidia.com/mig-3g.95gb": "3"})
			return w, action
		},
		"no agent": reporting(""), "an unreadable report": reporting("{"),
		"an agent that is off": reporting(contract.Report{At: start, Problem: "switched off", GPUs: []contract.GPUReport{{UUID: "GPU-a"}}}.String()),
	} {
		w, action := begin()
		writes := w.writes
		if r := w.do(action); r.Outcome != Refused || w.writes != writes {
			t.Errorf("%s: %s, %v, %d writes", name, r.Outcome, r.Err, w.writes-writes)
		}
		w.inService()
	}
	// Cluster API would restore the label of a Machine in each reconcile.
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) {
		n.Annotations = map[string]string{"cluster.x-k8s.io/labels-from-machine": "a,nvidia.com/mig.config"}
	})
	if r := w.do(w.repartition()); r.Outcome != Failed || !strings.Contains(r.Err.Error(), "machine template") || w.node().Spec.Unschedulable {
		t.Errorf("%s, %v", r.Outcome, r.Err)
	}
}

// withAgent is a world whose pool p is repartitioned by agents and whose instance 0 is
// allocated.
func withAgent(t *testing.T) (*world, plan.Action) {
	w := newWorld(t, nil)
	w.snap.Pools = []plan.Pool{{Name: "p", MIG: plan.PoolMIG{Repartition: true, KeepsBusy: true}}}
	device := &w.snap.Nodes[0].GPUs[0]
	device.UUID, device.Instances[0].AllocatedTo = "GPU-a", "ns/busy"
	edit(w, testNode(), func(n *corev1.Node) {
		report := contract.Report{At: start, GPUs: []contract.GPUReport{{UUID: "GPU-a"}}}
		n.Annotations = map[string]string{contract.LayoutAnnotation: report.String()}
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
	if r.Actuator != contract.ActuatorAgent || !r.Selected || r.UUID != "GPU-a" || !r.Cordoned || !n.Spec.Unschedulable {
		t.Fatalf("record %+v, unschedulable %v", r, n.Spec.Unschedulable)
	}
	if n.Labels[contract.ConfigLabel] != "" {
		t.Errorf("labels %v", n.Labels)
	}
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); !apierrors.IsNotFound(err) {
		t.Errorf("a ConfigMap for mig-manager: %v", err)
	}
	// The agent fails and restores the GPU: the record and the cordon are removed.
	n.Annotations[contract.AgentAnnotation] = contract.Answer{ID: "op", State: contract.AgentRestored, Message: "busy"}.String()
	w.must(w.client.Update(t.Context(), n))
	w.want(Done, plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"})
	w.inService()
}

// TestAgentIsLetBeginByResume: if the leader is killed after writing the record, the next
// one lets the agent begin, unless a pod was bound meanwhile. KAI's pods that reserve GPUs
// request some, and have no demand in the snapshot.
func TestAgentIsLetBeginByResume(t *testing.T) {
	for _, c := range []struct{ reserved, came bool }{{}, {came: true}, {reserved: true}, {true, true}} {
		w, repartition := withAgent(t)
		if c.reserved {
			w.must(w.client.Create(t.Context(), gpuPod("reserves", "p-1")))
			w.snap.Pods = append(w.snap.Pods, plan.Pod{Namespace: "ns", Name: "reserves", Node: "p-1"})
		}
		if r := w.do(repartition); r.Outcome != Done {
			t.Fatal(r.Err)
		}
		if c.came {
			w.must(w.client.Create(t.Context(), gpuPod("late", "p-1")))
		}
		w.must(w.resume(start.Add(time.Second)))
		r, ok, _ := contract.RecordOf(w.node())
		if ok == c.came || ok && !r.Selected {
			t.Errorf("%+v; record %v, selected %v", c, ok, r.Selected)
		}
	}
}

// TestGoesBackToWhatItWas: a rollback selects the config of the node's label if that
// describes the node's layout. If the config is deleted or describes another layout, it
// selects our own config for the layout.
func TestGoesBackToWhatItWas(t *testing.T) {
	for name, test := range map[string]struct {
		configs string
		back    bool // to the label
	}{
		"gone":   {"{}", false},
		"true":   {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}", true},
		"untrue": {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]}", false},
		"empty":  {"{theirs: []}", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			edit(w, testNode(), func(n *corev1.Node) { n.Labels[contract.ConfigLabel] = "theirs" })
			cm := &corev1.ConfigMap{Data: map[string]string{partition.ConfigKey: "version: v1\nmig-configs: " + test.configs}}
			cm.Namespace, cm.Name = partition.DefaultConfigMap.Namespace, partition.DefaultConfigMap.Name
			w.must(w.client.Create(t.Context(), cm))
			w.want(Done, w.repartition())
			r := w.record()
			if (r.Previous == "theirs") != test.back {
				t.Errorf("it rolls back to %s", r.Previous)
			}
			if w.configs().MIGConfigs[r.Previous] == nil {
				t.Errorf("config %s cannot be selected", r.Previous)
			}
		})
	}
}

// TestSelectsWhatTheLabelSaysAlready: after a reset a node may already have the label of its target layout. mig-manager
// acts only on a change of the label.
func TestSelectsWhatTheLabelSaysAlready(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.repartition())
	first := w.record()
	edit(w, testNode(), func(n *corev1.Node) { // repartitioned by hand, the label unchanged
		delete(n.Annotations, contract.RecordAnnotation)
		n.Spec.Unschedulable = false
	})
	w.want(Done, w.repartition())
	r := w.record()
	if r.Config == first.Config || w.node().Labels[contract.ConfigLabel] != r.Config {
		t.Fatalf("record %+v, label %s: nothing has changed for mig-manager", r, w.node().Labels[contract.ConfigLabel])
	}
	if c := w.configs().MIGConfigs; !reflect.DeepEqual(c[r.Config], c[first.Config]) || len(c[r.Config]) == 0 {
		t.Errorf("%s gives %v, %s %v", r.Config, c[r.Config], first.Config, c[first.Config])
	}
	if r.Previous == first.Config || r.Previous == r.Config {
		t.Errorf("it would roll back to %s, which is the target", r.Previous)
	}
}

// TestResumeFails: an error of resume is logged once, not in each reconcile.
func TestResumeFails(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Live = interceptor.NewClient(o.Live.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, pods := list.(*corev1.PodList); pods {
					return errors.New("no pod can be listed")
				}
				return c.List(ctx, list, opts...)
			},
		})
	})
	if r := w.do(w.repartition()); r.Outcome != Done {
		t.Fatal(r.Err)
	}
	w.snap.Now = start.Add(settleDelay)
	w.snap.Nodes[0].Operation = partition.OperationOf(w.node())
	for range 3 {
		w.actor.Apply(t.Context(), w.snap, plan.Plan{})
		w.snap.Now = w.snap.Now.Add(time.Second)
	}
	if n := strings.Count(log.String(), "resuming operations failed"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, &log)
	}
}

package act

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

var (
	asSevenths = map[string]string{"nvidia.com/mig-1g.10gb": "7"}
	asHalves   = map[string]string{"nvidia.com/mig-3g.40gb": "2"}
)

func TestRepartitionThatSucceeds(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.cut())
	n := w.node()
	r, ok, err := partition.RecordOf(n)
	if !ok || err != nil || !r.Cordoned || !n.Spec.Unschedulable {
		t.Fatalf("record %+v %v %v, unschedulable %v", r, ok, err, n.Spec.Unschedulable)
	}
	if n.Labels[partition.ConfigLabel] != r.Config || n.Labels[partition.StateLabel] != "" {
		t.Errorf("labels %v, want config %s and no answer", n.Labels, r.Config)
	}
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); err != nil {
		t.Fatal(err)
	}
	c, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	if err != nil {
		t.Fatal(err)
	}
	if counts, _, known := c.Counts(r.Config, 0); !known || counts["3g.40gb"] != 2 {
		t.Errorf("config %s: %v", r.Config, counts)
	}
	if _, _, known := c.Counts(r.Previous, 0); !known {
		t.Errorf("the config to go back to, %s, is not published", r.Previous)
	}

	for _, step := range []struct {
		state   string
		offered map[string]string
		want    plan.Phase
	}{
		{partition.StatePending, nil, plan.PhasePending},
		{partition.StateSuccess, asSevenths, plan.PhasePending}, // the plugin is behind
		{partition.StateSuccess, asHalves, plan.PhaseSucceeded},
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
	n = w.node()
	if n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" {
		t.Errorf("still cordoned or recorded: %v %v", n.Spec.Unschedulable, n.Annotations)
	}
	before := w.writes
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	if w.writes != before {
		t.Error("a second uncordon wrote again")
	}
}

func TestRepartitionThatFailsIsUndone(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.cut())
	w.answer(partition.StateFailed, asSevenths)
	if op := partition.OperationOf(w.node()); op.Phase != plan.PhaseFailed {
		t.Fatalf("phase %s", op.Phase)
	}
	undo := plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"}
	w.want(Waiting, undo)
	n := w.node()
	r, _, _ := partition.RecordOf(n)
	if n.Labels[partition.ConfigLabel] != r.Previous || r.Undo == nil || !n.Spec.Unschedulable {
		t.Fatalf("labels %v, record %+v", n.Labels, r)
	}
	if op := partition.OperationOf(n); op.Phase != plan.PhaseFailed {
		t.Errorf("phase %s while going back: the planner must go on asking", op.Phase)
	}
	writes := w.writes
	w.want(Waiting, undo)
	if w.writes != writes {
		t.Error("wrote again while mig-manager works")
	}
	// mig-manager fails once more: it acts on a change of the label only, and what
	// failed may need a moment.
	w.answer(partition.StateFailed, asSevenths)
	writes = w.writes
	w.want(Waiting, undo)
	if w.writes != writes {
		t.Error("tried again at once")
	}
	w.snap.Now = w.snap.Now.Add(10 * time.Second)
	w.want(Waiting, undo)
	if got := w.node().Labels[partition.ConfigLabel]; got == r.Previous {
		t.Error("the label did not move")
	}
	w.answer(partition.StateSuccess, asSevenths)
	w.want(Done, undo)
	n = w.node()
	if n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" {
		t.Errorf("still cordoned or recorded: %v", n.Annotations)
	}
	w.want(Done, undo)
}

func TestUndoGivesUpLoudly(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.cut())
	undo := plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"}
	for range partition.MaxUndoAttempts {
		w.answer(partition.StateFailed, asSevenths)
		w.want(Waiting, undo)
		w.snap.Now = w.snap.Now.Add(3 * time.Minute)
	}
	w.answer(partition.StateFailed, asSevenths)
	w.want(Failed, undo)
	if !w.node().Spec.Unschedulable {
		t.Error("a node nobody could restore was given to the scheduler")
	}
}

func TestSomebodyElsesCordonStays(t *testing.T) {
	w := newWorld(t, nil)
	n := w.node()
	n.Spec.Unschedulable = true
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.want(Done, w.cut())
	w.answer(partition.StateSuccess, asHalves)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "op"})
	if !w.node().Spec.Unschedulable {
		t.Error("somebody else's cordon was lifted")
	}
}

func TestPreconditionsOfARepartition(t *testing.T) {
	for name, change := range map[string]func(*world){
		"offers something else": func(w *world) { w.answer(partition.StateSuccess, asHalves) },
		"another incarnation":   func(w *world) { w.snap.Nodes[0].Created = start.Add(-time.Hour) },
		"held":                  func(w *world) { w.snap.Nodes[0].Cards[0].Instances[3].Holder = "ns/x" },
		"holders unknown":       func(w *world) { w.snap.Nodes[0].Cards[0].HoldersKnown = false },
		"cut otherwise":         func(w *world) { w.snap.Nodes[0].Cards[0].Instances = nil },
		"not in the snapshot":   func(w *world) { w.snap.Nodes = nil },
		"frozen":                func(w *world) { w.actor.o.Policy.Freeze = true },
		"pool frozen": func(w *world) {
			pool := testPool()
			_ = w.client.Get(t.Context(), client.ObjectKey{Name: "p"}, pool)
			pool.Spec.Freeze = true
			if err := w.client.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			change(w)
			before := w.writes
			w.want(Refused, w.cut())
			if w.writes != before {
				t.Errorf("%d writes for a refused action", w.writes-before)
			}
		})
	}
}

func TestPodThatCameMeanwhile(t *testing.T) {
	w := newWorld(t, nil, gpuPod("late", "p-1"))
	w.want(Refused, w.cut())
	n := w.node()
	if n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" || n.Labels[partition.ConfigLabel] != "" {
		t.Errorf("left behind: %v %v %v", n.Spec.Unschedulable, n.Annotations, n.Labels)
	}
	known := newWorld(t, nil, gpuPod("early", "p-1"))
	p := plan.Pod{Namespace: "ns", Name: "early", Node: "p-1"}
	p.Demand.Cards = 1
	known.snap.Pods = []plan.Pod{p}
	known.want(Done, known.cut())
}

// TestResume: the label waits until mig-manager can know a new config, and is
// set by whoever leads then.
func TestResume(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
	w.want(Done, w.cut())
	resume := func(after time.Duration, want bool) {
		t.Helper()
		if err := w.actor.Resume(t.Context(), start.Add(after)); err != nil {
			t.Fatal(err)
		}
		r, _, _ := partition.RecordOf(w.node())
		if got := w.node().Labels[partition.ConfigLabel] == r.Config; got != want {
			t.Errorf("after %s: selected %v, want %v", after, got, want)
		}
	}
	resume(59*time.Second, false)
	resume(6*time.Minute, false) // overdue: the planner's to undo
	resume(time.Minute, true)
	writes := w.writes
	resume(2*time.Minute, true)
	if w.writes != writes {
		t.Error("resumed twice")
	}
}

// TestUndoBeforeTheLabel: what never was selected needs no mig-manager to undo.
func TestUndoBeforeTheLabel(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
	w.want(Done, w.cut())
	w.want(Done, plan.Action{Verb: plan.Rollback, Pool: "p", Node: "p-1", Operation: "op"})
	if n := w.node(); n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" {
		t.Error("still cordoned or recorded")
	}
}

// TestTidyKeepsWhatIsUsed: of many configs only those go that no node needs.
func TestTidyKeepsWhatIsUsed(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.cut())
	used, _, _ := partition.RecordOf(w.node())
	var cm corev1.ConfigMap
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); err != nil {
		t.Fatal(err)
	}
	c, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		c.MIGConfigs[fmt.Sprintf("gpuscale-%010d", i)] = c.MIGConfigs[used.Config]
	}
	c.MIGConfigs["all-disabled"] = c.MIGConfigs[used.Config]
	cm.Data[partition.ConfigKey] = c.String()
	if err := w.client.Update(t.Context(), &cm); err != nil {
		t.Fatal(err)
	}
	if err := w.actor.Resume(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Get(t.Context(), partition.DefaultConfigMap, &cm); err != nil {
		t.Fatal(err)
	}
	if c, err = partition.ParseConfig(cm.Data[partition.ConfigKey]); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{used.Config, used.Previous, "all-disabled"} {
		if _, ok := c.MIGConfigs[name]; !ok {
			t.Errorf("config %s is gone", name)
		}
	}
	if n := len(c.MIGConfigs); n != 64+3 {
		t.Errorf("%d configs are left, want 64 unused ones and three", n)
	}
}

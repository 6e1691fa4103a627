package partition_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

var began = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// timeout of an operation, and the longest time that its rollback may take.
const timeout = 2 * time.Minute

// env is a node with the sandbox's mig-manager on it, and the autoscaler's reconciles, with a
// virtual clock: a step is two seconds.
type env struct {
	t       *testing.T
	client  client.Client
	manager *partition.Manager
	agent   *node.Agent
	machine *node.Machine
	pods    []*corev1.Pod // of the node
	now     time.Time
	// mounted is the ConfigMap as mounted in mig-manager's pod; late delays updates.
	mounted []byte
	late    bool
	// down: the machine reboots, so nothing on it answers.
	down bool
	// succeeded is when the target was reached; zero for never.
	succeeded time.Time
	complaint string // logged last
}

func newEnv(t *testing.T) *env {
	t.Helper()
	table, _ := mig.ForModel("H100-80GB")
	layout, err := mig.ParseLayout(table, "1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6")
	require.NoError(t, err)
	m, err := node.New(node.Spec{Name: "n", Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1, Layouts: []mig.Layout{layout}, Delays: node.DefaultDelays()}, began)
	require.NoError(t, err)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	c := kubefake.New(clientgoscheme.Scheme).WithObjects(n).Build()
	b := &env{t: t, client: c, manager: partition.NewManager(c, c, partition.DefaultConfigMap), agent: node.NewAgent(m, c, slog.New(slog.DiscardHandler)), machine: m, now: began}
	for range 3 {
		b.step()
	}
	return b
}

func (b *env) node() *corev1.Node {
	b.t.Helper()
	var n corev1.Node
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKey{Name: "n"}, &n))
	return &n
}

// begin repartitions the GPU into two, as the actuator does.
func (b *env) begin() { b.repartition("3g@0 3g@4") }

func (b *env) repartition(layout string) {
	b.t.Helper()
	model, _ := gpu.ParseProduct("H100-80GB")
	device := plan.GPU{Device: gpu.Device{Model: model}, MIG: true}
	for _, i := range b.machine.GPUs()[0].Instances {
		device.Instances = append(device.Instances, plan.Instance{Placement: i.Placement, Placed: true})
	}
	before, err := partition.Names{}.LayoutOf(nil, []plan.GPU{device})
	require.NoError(b.t, err)
	table, _ := mig.ForModel(model.Name)
	target, err := mig.ParseLayout(table, layout)
	require.NoError(b.t, err)
	after, err := before.With(nil, partition.Names{}, 0, model.Name, target)
	require.NoError(b.t, err)
	_, err = b.manager.Publish(b.t.Context(), b.now, before, after)
	require.NoError(b.t, err)
	r := contract.Record{ID: "op", Model: model.Name, Target: table.Format(target), Before: table.Format(partition.Placements(device)),
		Config: after.Name(), Previous: before.Name(), Expect: after.Resources(), Was: before.Resources(), Started: b.now, Deadline: b.now.Add(timeout)}
	n := b.node()
	require.NoError(b.t, b.manager.Mark(b.t.Context(), n, r))
	r, _, _ = contract.RecordOf(n)
	require.NoError(b.t, b.manager.Select(b.t.Context(), n, r))
}

// step is two seconds: mig-manager works, the kubelet reports, the autoscaler reconciles.
func (b *env) step() {
	b.t.Helper()
	b.now = b.now.Add(2 * time.Second)
	if !b.late {
		var cm corev1.ConfigMap
		if b.client.Get(b.t.Context(), partition.DefaultConfigMap, &cm) == nil {
			b.mounted = []byte(cm.Data[partition.ConfigKey])
		}
	}
	if !b.down {
		require.NoError(b.t, b.agent.Step(b.t.Context(), b.node(), b.pods, b.mounted, b.now))
	}
	b.reconcile()
}

// reconcile does what the planner requests of the actuator: it ends an operation that has succeeded, and rolls back one
// that has failed or is past its deadline.
func (b *env) reconcile() {
	b.t.Helper()
	n := b.node()
	op := partition.OperationOf(n)
	if op == nil {
		return
	}
	r, _, err := contract.RecordOf(n)
	require.NoError(b.t, err)
	switch {
	case op.Phase == plan.PhaseSucceeded:
		b.succeeded = b.now
		err = b.manager.Unmark(b.t.Context(), n, r)
	case op.Phase == plan.PhaseFailed || b.now.After(op.Deadline):
		_, err = b.manager.Undo(b.t.Context(), n, r, b.now, timeout)
	}
	if err != nil && err.Error() != b.complaint {
		b.complaint = err.Error()
		b.t.Logf("%s: %v", b.now.Sub(began), err)
	}
}

// ended steps until the operation is over, and returns how long after its deadline that was; ok is
// false if it takes more than two minutes.
func (b *env) ended() (after time.Duration, ok bool) {
	b.t.Helper()
	deadline := partition.OperationOf(b.node()).Deadline
	for b.now.Before(deadline.Add(2 * time.Minute)) {
		b.step()
		if partition.OperationOf(b.node()) == nil {
			return b.now.Sub(deadline), true
		}
	}
	return 0, false
}

// TestWatchdog: whatever mig-manager does, the GPUs are offered again and the node is schedulable within a minute of
// the operation's deadline.
func TestWatchdog(t *testing.T) {
	for name, test := range map[string]struct {
		story     func(*env)
		succeeded bool
	}{
		"all is well": {func(b *env) { b.begin() }, true},
		"it hangs in the change, for ever pending": {func(b *env) {
			b.machine.Wedge(true)
			b.begin()
			b.wait(timeout)
			b.machine.Wedge(false)
		}, false},
		"it hangs in the change and on the way back": {func(b *env) {
			b.machine.Wedge(true)
			b.begin()
			b.wait(timeout + 10*time.Second) // the first rollback hangs too
			b.machine.Wedge(false)
		}, false},
		"the ConfigMap is late": {func(b *env) {
			b.late = true
			b.begin()
			b.wait(40 * time.Second) // failed, and so is the first rollback
			b.late = false
		}, false},
		"a process holds the GPU": {func(b *env) {
			b.hold()
			b.begin()
		}, false},
		// mig-manager v0.13.0 to v0.15.0 then leaves its clients paused.
		"a process holds the GPU, after a success": {func(b *env) {
			b.begin()
			if _, ok := b.ended(); !ok {
				b.t.Fatal("the first operation has not ended")
			}
			b.succeeded = time.Time{}
			b.repartition("1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6")
			if _, ok := b.ended(); !ok {
				b.t.Fatal("the second operation has not ended")
			}
			b.succeeded = time.Time{}
			b.hold()
			b.begin()
		}, false},
		"it reboots in time": {func(b *env) {
			b.begin()
			b.reboot(time.Minute)
		}, true},
		"it reboots beyond the deadline": {func(b *env) {
			b.begin()
			b.reboot(timeout + 20*time.Second)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			test.story(b)
			if op := partition.OperationOf(b.node()); op != nil {
				after, ok := b.ended()
				if !ok || after > time.Minute {
					t.Errorf("over %s after the deadline (%v), want at most a minute", after, ok)
				}
				t.Logf("over %s after the deadline", after)
			}
			n := b.node()
			want := map[string]int64{"nvidia.com/mig-1g.10gb": 7}
			if test.succeeded {
				want = map[string]int64{"nvidia.com/mig-3g.40gb": 2}
			}
			if got := partition.Advertised(n); len(got) != 1 || got["nvidia.com/mig-1g.10gb"] != want["nvidia.com/mig-1g.10gb"] || got["nvidia.com/mig-3g.40gb"] != want["nvidia.com/mig-3g.40gb"] {
				t.Errorf("on offer: %v, want %v", got, want)
			}
			if n.Spec.Unschedulable || b.succeeded.IsZero() == test.succeeded {
				t.Errorf("unschedulable %v, succeeded at %v", n.Spec.Unschedulable, b.succeeded)
			}
		})
	}
}

// hold runs a pod on one of the small instances.
func (b *env) hold() {
	b.pods = append(b.pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}},
	}}}})
	b.step()
}

// wait for d from the operation's beginning.
func (b *env) wait(d time.Duration) {
	op := partition.OperationOf(b.node())
	for end := op.Started.Add(d); b.now.Before(end); {
		b.step()
	}
}

// reboot takes the machine down until d after the operation's beginning, as mig-manager does where
// a GPU can only be reset so.
func (b *env) reboot(d time.Duration) {
	b.t.Helper()
	n := b.node()
	n.Labels[contract.StateLabel] = "rebooting"
	require.NoError(b.t, b.client.Update(b.t.Context(), n))
	b.down = true
	b.wait(d)
	b.down = false
}

// TestSecondWriter: the autoscaler does not fight with another client that writes the label. While mig-manager works,
// and until the node offers what it did before, the node stays cordoned.
func TestSecondWriter(t *testing.T) {
	relabel := func(b *env, to string) {
		n := b.node()
		if n.Labels[contract.ConfigLabel] == to {
			return
		}
		n.Labels[contract.ConfigLabel] = to
		require.NoError(b.t, b.client.Update(b.t.Context(), n))
	}
	record := func(b *env) contract.Record {
		r, _, err := contract.RecordOf(b.node())
		require.NoError(b.t, err)
		return r
	}
	t.Run("with the previous config", func(t *testing.T) {
		b := newEnv(t)
		b.begin()
		previous := record(b).Previous
		b.step()
		relabel(b, previous) // as Cluster API keeps a Machine's label
		writes := map[string]bool{}
		for partition.OperationOf(b.node()) != nil && b.now.Before(began.Add(10*time.Minute)) {
			b.step()
			writes[b.node().Labels[contract.ConfigLabel]] = true
			if n := b.node(); !n.Spec.Unschedulable && (n.Labels[contract.StateLabel] != contract.StateSuccess || partition.Advertised(n)["nvidia.com/mig-1g.10gb"] != 7) {
				t.Fatalf("uncordoned with state %q and %v", n.Labels[contract.StateLabel], partition.Advertised(n))
			}
		}
		if n := b.node(); partition.OperationOf(n) != nil || n.Spec.Unschedulable || len(writes) != 1 {
			t.Errorf("operation %+v, unschedulable %v, labels %v", partition.OperationOf(n), n.Spec.Unschedulable, writes)
		}
	})
	t.Run("that never stops", func(t *testing.T) {
		b := newEnv(t)
		b.begin()
		moves := 0
		for range 600 {
			if b.node().Labels[contract.ConfigLabel] != "theirs" {
				moves++
			}
			relabel(b, "theirs") // a config that does not exist
			b.step()
			if !b.node().Spec.Unschedulable {
				t.Fatalf("uncordoned with state %q and %v", b.node().Labels[contract.StateLabel], partition.Advertised(b.node()))
			}
		}
		if moves > partition.MaxUndoAttempts+1 {
			t.Errorf("the label was moved %d times, at most %d", moves, partition.MaxUndoAttempts+1)
		}
		if op := partition.OperationOf(b.node()); op == nil || op.Phase != plan.PhaseFailed || !strings.Contains(b.complaint, "uncordoned by hand") {
			t.Fatalf("operation %+v, error %q", op, b.complaint)
		}
		n := b.node()
		n.Spec.Unschedulable = false // by hand
		require.NoError(t, b.client.Update(t.Context(), n))
		b.step()
		if n := b.node(); n.Spec.Unschedulable || partition.OperationOf(n) != nil {
			t.Errorf("unschedulable %v, operation %+v", n.Spec.Unschedulable, partition.OperationOf(n))
		}
	})
}

// TestMovedAtTheDeadline: an operation whose label another client changes while mig-manager works does not look like
// one that never began.
func TestMovedAtTheDeadline(t *testing.T) {
	b := newEnv(t)
	b.machine.Wedge(true)
	b.begin()
	n := b.node()
	n.Labels[contract.ConfigLabel], n.Labels[contract.StateLabel] = "theirs", contract.StatePending
	require.NoError(t, b.client.Update(t.Context(), n))
	r, _, _ := contract.RecordOf(n)
	if done, err := b.manager.Undo(t.Context(), n, r, r.Deadline.Add(time.Second), timeout); done || err != nil || !b.node().Spec.Unschedulable {
		t.Errorf("done %v, %v, unschedulable %v: it was selected, and mig-manager is at work", done, err, b.node().Spec.Unschedulable)
	}
}

// TestNotOfferedIsNotUncordoned: if mig-manager succeeds and the device plugin then offers less than before, it is
// tried again. After the last attempt the node stays cordoned.
func TestNotOfferedIsNotUncordoned(t *testing.T) {
	b := newEnv(t)
	b.begin()
	n := b.node()
	n.Status.Allocatable = corev1.ResourceList{}
	require.NoError(t, b.client.Status().Update(t.Context(), n))
	r, _, _ := contract.RecordOf(n)
	now := r.Deadline.Add(time.Second)
	var err error
	for range 100 {
		n := b.node()
		r, _, _ := contract.RecordOf(n)
		var done bool
		if done, err = b.manager.Undo(t.Context(), n, r, now, timeout); done {
			t.Fatalf("done although the node offers %v", partition.Advertised(n))
		}
		if err != nil {
			break
		}
		n = b.node()
		n.Labels[contract.StateLabel] = contract.StateSuccess
		require.NoError(t, b.client.Update(t.Context(), n))
		n.Status.Allocatable = corev1.ResourceList{}
		require.NoError(t, b.client.Status().Update(t.Context(), n))
		now = now.Add(timeout / 4)
	}
	if err == nil || !b.node().Spec.Unschedulable {
		t.Errorf("error %v, unschedulable %v", err, b.node().Spec.Unschedulable)
	}
}

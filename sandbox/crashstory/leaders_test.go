package crashstory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// TestLeaseTaken: once another replica holds the lease, a replica that has not
// noticed yet writes nothing more. The election alone would let it write until its
// renewal is overdue.
func TestLeaseTaken(t *testing.T) {
	testall.Only(t, "a replica that lost its lease; autoscaler/act has that each write checks it")
	b := shared.Get(t)
	r := newTestReplica(t, b, "deposed", true)
	begin(t, b, r)
	awaitReconciles(t, b, r, settledAfter) // nothing is under way when the lease changes hands
	until(t, "the lease to change hands", func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := b.Admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: "gpuscale-autoscaler"}, &lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity = ptr.To("another")
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To(metav1.NowMicro()), ptr.To[int32](3600)
		return b.Admin.Update(ctx, &lease) // the replica renews it meanwhile
	})
	from := len(r.Notes())
	want(t, b, "waits")
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("it still takes itself for the leader"))
	defer cancel()
	require.NoError(t, r.ended(ctx))
	if calls := did(r, from); len(calls) > 0 {
		t.Errorf("after it was deposed:\n%s", strings.Join(calls, "\n"))
	}
	if !logged(t, b, r, "write refused") {
		t.Error("it wanted to write nothing: this shows nothing")
	}
	done(t, b, "mig-1", "")
}

// paused are the writes after which the leader is stopped, each in the middle of
// something.
var paused = []string{
	"create nodes whole-1", // one of a gang's two nodes
	"patch gpunodepools/status whole status.plannerState.grown,status.plannerState.lastScaleUpTime", // decided, not asked for
	"patch nodes mig-1 metadata.annotations.gpuscale.io/repartition,spec.unschedulable",
	"patch nodes whole-1 metadata.annotations.gpuscale.io/cordoned-by,metadata.annotations.gpuscale.io/drain,spec.unschedulable",
	"patch nodes whole-2 metadata.annotations.gpuscale.io/cordoned-by,spec.unschedulable", // about to be deleted
}

// TestPausedLeader: a leader is stopped (SIGSTOP) in the middle of something, until
// another has led the story to its end. When it goes on, nothing more comes of it.
func TestPausedLeader(t *testing.T) {
	testall.Only(t, "a leader stopped in the middle; TestLeaseTaken has one that lost its lease")
	b := shared.Get(t)
	golden, notes := cleanRun(t, b)
	for _, what := range paused {
		t.Run(what, func(t *testing.T) {
			i := slices.IndexFunc(notes, func(n Note) bool { return isCall(n.Call, what) })
			if i < 0 {
				t.Fatalf("the clean run has no such call; it has\n%v", notes)
			}
			playPaused(t, b, notes[i], golden)
		})
	}
}

// isCall reports the call that what names; a patch may be about more, as a cordon is that takes
// the soft taint away.
func isCall(c Call, what string) bool {
	fields := strings.Split(c.Fields, ",")
	c.Fields = ""
	named, ok := strings.CutPrefix(what, c.String())
	for _, field := range strings.Split(strings.TrimPrefix(named, " "), ",") {
		ok = ok && slices.Contains(fields, field)
	}
	return ok
}

func playPaused(t *testing.T, b *Env, target Note, golden State) {
	require.NoError(t, errors.Join(b.clear(t.Context()), b.set(t.Context())))
	first, second := newTestReplica(t, b, "first", true), newTestReplica(t, b, "second", true)
	var stopped atomic.Bool
	first.Arm(at(target, PauseAfter), nil, func() {
		if err := first.stop(); err != nil {
			t.Error(err)
		}
		stopped.Store(true)
	})
	second.Arm(nil, nil, nil)
	require.NoError(t, first.start())
	until(t, "the first to lead", func(context.Context) error {
		if len(first.Notes()) == 0 {
			return errors.New("it has written nothing")
		}
		return nil
	})
	require.NoError(t, second.start())
	end, err := b.playAll(t.Context(), func() *replica {
		if stopped.Load() {
			return second
		}
		return first
	})
	require.NoError(t, err)
	if !stopped.Load() {
		t.Fatal("the first was never stopped: this shows nothing")
	}
	if diff := golden.Diff(end); len(diff) > 0 {
		t.Errorf("with the second leading:\n%s", strings.Join(diff, "\n"))
	}
	from := len(first.Notes())
	require.NoError(t, first.goOn())
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("it thinks that it leads"))
	defer cancel()
	require.NoError(t, first.ended(ctx))
	if calls := did(first, from); len(calls) > 0 {
		t.Errorf("after it went on, the first did:\n%s", strings.Join(calls, "\n"))
	}
	t.Logf("write refused in the log of the first: %t", logged(t, b, first, "write refused"))
	awaitReconciles(t, b, second, settledAfter)
	end, err = b.result(t.Context())
	require.NoError(t, err)
	if diff := golden.Diff(end); len(diff) > 0 {
		t.Errorf("after the first went on:\n%s", strings.Join(diff, "\n"))
	}
}

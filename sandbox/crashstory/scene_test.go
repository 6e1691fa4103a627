package crashstory

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// What the tests of single faults share: the story's pools with their first node,
// and pods that want one more.

// begin sets the pools and starts the replica, and waits for the pool's minimum.
func begin(t *testing.T, b *Env, r *replica) {
	t.Helper()
	require.NoError(t, errors.Join(b.clear(t.Context()), b.set(t.Context())))
	r.Arm(nil, r.crash, nil)
	require.NoError(t, r.start())
	until(t, "the first node", func(ctx context.Context) error { return ready("mig-1")(b.stage, ctx) })
	awaitReconciles(t, b, r, seenAfter)
}

func until(t *testing.T, what string, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errors.New("timed out waiting for "+what))
	defer cancel()
	require.NoError(t, await.Until(ctx, done))
}

// awaitReconciles waits until the replica has read the GPUs and reconciled n times.
func awaitReconciles(t *testing.T, b *Env, r *replica, n float64) {
	t.Helper()
	require.NoError(t, b.settle(t.Context(), func() *replica { return r }, n))
}

// want is a pod that needs a whole node of the pool.
func want(t *testing.T, b *Env, name string) {
	t.Helper()
	require.NoError(t, b.stage.create(t.Context(), newPod(nsFree, name, partition.GPUResource, 2)))
}

func untilRunning(t *testing.T, b *Env, name string) {
	t.Helper()
	until(t, name+" to run", func(ctx context.Context) error { return b.stage.notRunning(ctx, nsFree+"/"+name) })
}

// untilStuck waits until the scheduler has found no node for a pod.
func untilStuck(t *testing.T, b *Env, name string) {
	t.Helper()
	until(t, "the scheduler to find no node", func(ctx context.Context) error {
		p, err := b.stage.pod(ctx, nsFree+"/"+name)
		if err != nil || p == nil {
			return errors.Join(errors.New("the pod is not there"), err)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return errors.New("no condition yet")
	})
}

// done fails unless exactly these nodes were made and deleted.
func done(t *testing.T, b *Env, made, removed string) {
	t.Helper()
	m, r, _ := b.view.counts()
	if got := strings.Join(m, " "); got != made {
		t.Errorf("nodes made: %q, want %q", got, made)
	}
	if got := strings.Join(r, " "); got != removed {
		t.Errorf("nodes deleted: %q, want %q", got, removed)
	}
}

// listedOnce fails where the whole of anything was asked for more than once.
func listedOnce(t *testing.T, r *replica) {
	t.Helper()
	for resource, n := range r.Lists() {
		if n > 1 {
			t.Errorf("%s was listed %d times", resource, n)
		}
	}
}

// did are the calls from the nth on that the API server did.
func did(r *replica, from int) (out []string) {
	for _, n := range r.Notes()[from:] {
		if n.Status > 0 && n.Status < 300 {
			out = append(out, n.ID())
		}
	}
	return out
}

// logged reports whether the replica's log contains a text.
func logged(t *testing.T, b *Env, r *replica, text string) bool {
	t.Helper()
	log, err := os.ReadFile(b.Cluster.LogFile(r.name))
	require.NoError(t, err)
	return strings.Contains(string(log), text)
}

var clean struct {
	once   sync.Once
	golden State
	notes  []Note
	err    error
}

// cleanRun is the story without a fault, played once for all tests.
func cleanRun(t *testing.T, b *Env) (State, []Note) {
	t.Helper()
	clean.once.Do(func() {
		r := newTestReplica(t, b, "clean", false)
		clean.golden, clean.notes, clean.err = b.Play(t.Context(), r, nil)
	})
	if clean.err != nil {
		t.Fatal(clean.err)
	}
	return clean.golden, clean.notes
}

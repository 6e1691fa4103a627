package crashstory

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// TestAPIServerAway: while the API server is away the autoscaler goes on reconciling
// and does nothing; when it is back, pending work is done without another list.
func TestAPIServerAway(t *testing.T) {
	testall.Only(t, "the API server away")
	b := shared.Get(t)
	r := newTestReplica(t, b, "away", false)
	begin(t, b, r)
	r.Down(true)
	want(t, b, "waits")
	untilStuck(t, b, "waits")
	calls := len(r.Notes()) // by now with those that were under way
	until(t, "30 reconciles without an API server", func(ctx context.Context) error {
		m, err := r.metrics(ctx)
		if err != nil {
			return err
		}
		if m[metric.AutoscalerReconciles.Name+`{result="ok"}`]+m[metric.AutoscalerReconciles.Name+`{result="error"}`] < 30 {
			return errors.New("not enough")
		}
		return nil
	})
	if n := len(r.Notes()); n != calls {
		t.Errorf("%d calls while the API server was away", n-calls)
	}
	r.Lists()
	r.Down(false)
	untilRunning(t, b, "waits")
	awaitReconciles(t, b, r, settledAfter)
	listedOnce(t, r)
	if r.starts != 1 {
		t.Errorf("the process was started %d times", r.starts)
	}
	done(t, b, "mig-1 whole-1", "")
}

// TestLostDelete: what was deleted while the watch was interrupted, and is never sent, is
// found out with the one listing that follows.
func TestLostDelete(t *testing.T) {
	testall.Only(t, "a watch that loses a deletion")
	b := shared.Get(t)
	r := newTestReplica(t, b, "lost", false)
	begin(t, b, r)
	want(t, b, "first")
	untilRunning(t, b, "first")
	awaitReconciles(t, b, r, settledAfter)
	r.Freeze("pods")
	r.Freeze("nodes")
	ctx := t.Context()
	var node corev1.Node
	require.NoError(t, b.Admin.Get(ctx, client.ObjectKey{Name: "whole-1"}, &node))
	require.NoError(t, errors.Join(b.stage.end(ctx, nsFree+"/first"), b.Admin.Delete(ctx, &node)))
	want(t, b, "second")
	untilStuck(t, b, "second")
	r.Lists()
	r.Lose("pods")
	r.Lose("nodes")
	untilRunning(t, b, "second")
	awaitReconciles(t, b, r, settledAfter)
	lists := r.Lists()
	if lists["pods"] != 1 || lists["nodes"] != 1 {
		t.Errorf("listed: %v, want pods and nodes once", lists)
	}
	done(t, b, "mig-1 whole-1 whole-1", "whole-1")

	r.Interrupt() // every stream, as a load balancer does
	require.NoError(t, b.stage.end(ctx, nsFree+"/second"))
	until(t, "the empty node to go", func(ctx context.Context) error { return b.stage.gone(ctx, "whole-1") })
	awaitReconciles(t, b, r, settledAfter)
	listedOnce(t, r)
}

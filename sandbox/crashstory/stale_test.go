package crashstory

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/testall"
)

// longer than the story's pools are idle and cool down, in reconciles of 100 ms.
const longer = 40

// TestNothingTwiceOnAStaleCache: a replica whose watch of nodes lags adds
// none twice.
func TestNothingTwiceOnAStaleCache(t *testing.T) {
	testall.Only(t, "a cache that lags; autoscaler/act has it with a client of its own")
	b := shared.Get(t)
	r := newTestReplica(t, b, "stale", false)
	begin(t, b, r)
	r.Freeze("nodes")
	want(t, b, "first")
	untilRunning(t, b, "first") // on a node that the replica has not seen
	// For the second it asks for one node, as it sees none; there is one.
	want(t, b, "second")
	untilStuck(t, b, "second")
	awaitReconciles(t, b, r, longer)
	done(t, b, "mig-1 whole-1", "")
	r.Thaw("nodes")
	untilRunning(t, b, "second")
	awaitReconciles(t, b, r, settledAfter)
	done(t, b, "mig-1 whole-1 whole-2", "")
}

// TestTwinIsNotDeleted: a node that has come under the name of one that is
// believed to be idle stays.
func TestTwinIsNotDeleted(t *testing.T) {
	testall.Only(t, "a node under an old name; sandbox/guardrails has it without a process")
	b := shared.Get(t)
	r := newTestReplica(t, b, "twin", false)
	begin(t, b, r)
	want(t, b, "first")
	untilRunning(t, b, "first")
	awaitReconciles(t, b, r, settledAfter)
	r.Freeze("nodes")
	ctx := t.Context()
	var first corev1.Node
	if err := b.Admin.Get(ctx, client.ObjectKey{Name: "whole-1"}, &first); err != nil {
		t.Fatal(err)
	}
	if err := b.Admin.Delete(ctx, &first); err != nil {
		t.Fatal(err)
	}
	twin := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: first.Name, Labels: first.Labels, Annotations: first.Annotations},
		Status:     first.Status,
	}
	if err := b.Admin.Create(ctx, twin); err != nil {
		t.Fatal(err)
	}
	if err := b.stage.end(ctx, nsFree+"/first"); err != nil {
		t.Fatal(err)
	}
	from := len(r.Notes())
	awaitReconciles(t, b, r, longer)
	var now corev1.Node
	if err := b.Admin.Get(ctx, client.ObjectKey{Name: twin.Name}, &now); err != nil || now.UID != twin.UID {
		t.Fatalf("the twin %s has gone for the first: %v %v", twin.UID, now.UID, err)
	}
	if now.Spec.Unschedulable {
		t.Error("the twin is cordoned")
	}
	for _, id := range did(r, from) {
		t.Log("meanwhile:", id)
	}
	r.Thaw("nodes")
	until(t, "the empty twin to go, once it is seen", func(ctx context.Context) (string, error) { return b.stage.gone(ctx, twin.Name) })
	done(t, b, "mig-1 whole-1 whole-1", "whole-1 whole-1")
}

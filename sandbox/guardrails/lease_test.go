package guardrails

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/testall"
)

// TestLeaseTaken: when another replica takes the Lease, a program that has not noticed it yet writes nothing
// more and exits. With leader election alone it could write until its renewal deadline.
func TestLeaseTaken(t *testing.T) {
	testall.Only(t, "a program that lost its lease; autoscaler/act has that each write checks it")
	w := newWorld(t, setup{})
	w.pool("h100", 1, 4)
	p := w.program("deposed")
	w.await("nothing is under way", w.says("h100", "Ready", "True"))
	w.await("the lease changes hands", func() error { // the program renews it meanwhile
		var lease coordinationv1.Lease
		if err := w.Admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace(), Name: "gpuscale-autoscaler"}, &lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = ptr.To("another"), ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0)+1)
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = ptr.To(metav1.NowMicro()), ptr.To[int32](3600)
		return w.Admin.Update(t.Context(), &lease)
	})
	taken := time.Now()
	w.work("train", "h100", 2, perNode)
	w.await("it ends", func() error {
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New("it still takes itself for the leader")
		}
	})
	for _, c := range p.writes() {
		if c.Granted() && c.RequestReceivedTimestamp.After(taken) && c.ObjectRef.Resource != "leases" && c.ObjectRef.Resource != "events" {
			t.Errorf("after it was deposed: %s", c)
		}
	}
	if n := len(w.nodes("h100")); n != 1 {
		t.Errorf("%d nodes", n)
	}
	if p.says("write refused") == 0 {
		t.Error("it wanted to write nothing: this shows nothing")
	}
}

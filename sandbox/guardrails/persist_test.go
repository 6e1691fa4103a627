package guardrails

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// TestStateIsWrittenFirst: while the API server accepts no status of a pool, no node
// is added or cordoned: the next process would repeat an action that is not recorded.
func TestStateIsWrittenFirst(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 0, 5)
	w.until("the pool is known", func() error { return nil })
	w.refuseStatuses()
	w.work("train", "h100", 2, perNode)
	w.await("the pods wait", w.waits("train", 2))
	for range 5 {
		w.must(w.loop.Once(t.Context()))
		last, _ := w.loop.State.Last()
		if len(last.Plan.Actions) != 0 || len(last.Unsaved) != 1 || last.Unsaved["h100"] == nil || len(last.Plan.State.Grown) != 0 {
			t.Fatalf("a reconcile without memory: %v, %v, %v", last.Plan.Actions, last.Unsaved, last.Plan.State.Grown)
		}
	}
	if n := len(w.nodes("h100")); n != 0 {
		t.Fatalf("%d nodes were added without a record", n)
	}
	w.allowStatuses()
	w.until("once it is safe, it is done", w.has("h100", 2))
}

const policyName = "no-status"

// refuseStatuses has the API server refuse the autoscaler's writes to the status of
// pools.
func (w *world) refuseStatuses() {
	w.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{v1alpha1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"gpunodepools/status"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "request.userInfo.username != '" + autoscalerUser + "'", Message: "no status today"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	w.must(w.Admin.Create(w.t.Context(), policy))
	w.must(w.Admin.Create(w.t.Context(), binding))
	w.t.Cleanup(func() {
		_ = w.Admin.Delete(context.Background(), policy)
		_ = w.Admin.Delete(context.Background(), binding)
	})
	w.await("the policy holds", func() error { return not(w.touchStatus(), "statuses are still taken") })
}

func (w *world) allowStatuses() {
	w.t.Helper()
	w.must(w.Admin.Delete(w.t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policyName}}))
	w.await("the policy has gone", w.touchStatus)
}

// touchStatus writes a pool's status as the autoscaler.
func (w *world) touchStatus() error {
	pool := w.get("h100")
	before := pool.DeepCopy()
	pool.Status.Message += "."
	return w.ours.Status().Patch(w.t.Context(), pool, client.MergeFrom(before))
}

// not inverts a check that has to fail.
func not(err error, else_ string) error {
	if err != nil {
		return nil
	}
	return errString(else_)
}

type errString string

func (e errString) Error() string { return string(e) }

package guardrails

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// quota guarantees GPUs to the pods of a team in the test's namespace.
func (w *world) quota(name, parent, guaranteed string) {
	w.t.Helper()
	tenants := ""
	if parent != "" {
		tenants = fmt.Sprintf(", parent: %s, tenants: {namespaces: [%s], podSelector: {matchLabels: {team: %s}}}", parent, w.namespace(), name)
	}
	w.must(w.Create(w.t.Context(), fmt.Sprintf(
		`{apiVersion: gpuscale.io/v1alpha1, kind: GPUQuota, metadata: {name: %s}, spec: {amounts: [{model: any, guaranteed: %q}]%s}}`, name, guaranteed, tenants)))
}

func team(name string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) { p.Labels["team"] = name }
}

// TestReclaimTakesWhatIsBorrowed: a team with a guarantee of two GPUs uses all eight GPUs of the only node. A
// team with a guarantee of six gets them from the first team's least urgent pods, the youngest first; two
// GPUs stay with the first team. Reclaimed GPUs are reserved for the pods for which they were reclaimed.
// Otherwise the evicted pods' successors, which are created at once, would often be scheduled first, and
// evictions would repeat. kube-scheduler sometimes drops a nomination, mostly if pods leave within
// milliseconds as here. So the test does not require exactly six evictions.
func TestReclaimTakesWhatIsBorrowed(t *testing.T) {
	w := newWorld(t, setup{policy: func(p *plan.Policy) { p.ReclaimBorrowed = true }})
	urgent := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "guardrails-urgent"}, Value: 100, PreemptionPolicy: ptr.To(corev1.PreemptNever)}
	w.must(client.IgnoreAlreadyExists(w.Admin.Create(t.Context(), urgent)))
	w.pool("h100", 1, 1)
	w.until("the fleet", w.has("h100", 1))
	w.quota("all", "", "0")
	w.quota("owner", "all", "6")
	w.quota("guest", "all", "2")
	w.work("old", "h100", 1, 1, team("guest"))
	w.await("it runs", w.runs("old", 1))
	w.work("important", "h100", 1, 1, team("guest"), func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = urgent.Name })
	w.await("it runs", w.runs("important", 1))
	// Ages are whole seconds in the API, so the next pod is created in another second.
	oldest := w.pods("important")[0].CreationTimestamp.Time
	await.True(t, testenv.Patience, "another second", func() bool { return time.Since(oldest) >= time.Second })
	w.work("young", "h100", 6, 1, team("guest"))
	w.await("the node is full", w.runs("young", 6))
	keeps := []string{w.pods("old")[0].Name, w.pods("important")[0].Name}

	w.work("mine", "h100", 7, 1, team("owner"))
	w.await("they wait", w.waits("mine", 7))
	w.until("what is guaranteed runs", w.runs("mine", 6))
	w.reconciles(10)
	var left []string
	for _, p := range slices.Concat(w.pods("old"), w.pods("important"), w.pods("young")) {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			left = append(left, p.Name)
		}
	}
	slices.Sort(left)
	slices.Sort(keeps)
	if !slices.Equal(left, keeps) {
		t.Errorf("left of the guest: %v, want the older and the more urgent one, %v", left, keeps)
	}
	if err := w.runs("mine", 6)(); err != nil {
		t.Error("no more than is guaranteed: ", err)
	}
	asked := w.writes(t, autoscalerUser, func(e testenv.Call) bool {
		return e.ObjectRef.Subresource == "eviction" && e.ObjectRef.Namespace == w.namespace() && e.Granted()
	})
	if len(asked) < 6 || len(asked) > 12 {
		t.Errorf("%d pods were asked to leave for 6", len(asked))
	}
}

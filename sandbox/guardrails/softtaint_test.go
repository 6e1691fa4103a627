package guardrails

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestSoftTaint: kube-scheduler itself gives an empty node the next pod, unless it has our soft
// taint; then the node in use gets it.
func TestSoftTaint(t *testing.T) {
	e, k := typed(t)
	ctx := t.Context()
	require.NoError(t, e.Namespace(ctx, "soft-taint", nil))
	nodes, pods := k.CoreV1().Nodes(), k.CoreV1().Pods("soft-taint")
	for _, name := range []string{"soft-used", "soft-empty"} {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": "soft", "step": name}, Annotations: map[string]string{cluster.AnnotationFake: "fake"}},
			Status:     corev1.NodeStatus{Allocatable: fakeNodes().Offers, Capacity: fakeNodes().Offers},
		}
		if _, err := nodes.Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	// on returns the node that the scheduler chooses of those with a label.
	on := func(name, cpu, key, value string) (node string) {
		t.Helper()
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{key: value}, Containers: []corev1.Container{{
				Name: "c", Image: "example/c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}}},
		}
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		await.For(t, testenv.Patience, name+" has a node", func() error {
			p, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if node = p.Spec.NodeName; node == "" {
				return fmt.Errorf("it has none: %v", p.Status.Conditions)
			}
			return nil
		})
		return node
	}
	// The scheduler has seen a version of a node once it has bound a pod by a label of it.
	on("load", "16", "step", "soft-used")
	on("seen", "0", "step", "soft-empty")
	if node := on("spread", "1", "group", "soft"); node != "soft-empty" {
		t.Fatalf("without a taint the pod went to %s, want the empty node: this test shows nothing", node)
	}
	require.NoError(t, pods.Delete(ctx, "spread", *metav1.NewDeleteOptions(0)))
	taint := fmt.Sprintf(`{"metadata":{"labels":{"step":"tainted"}},"spec":{"taints":[{"key":%q,"effect":"PreferNoSchedule"}]}}`, v1alpha1.EmptyTaint)
	if _, err := nodes.Patch(ctx, "soft-empty", types.MergePatchType, []byte(taint), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	on("seen-tainted", "0", "step", "tainted") // refused no pod
	if node := on("packed", "1", "group", "soft"); node != "soft-used" {
		t.Errorf("with the soft taint the pod went to %s, want the node in use", node)
	}
}

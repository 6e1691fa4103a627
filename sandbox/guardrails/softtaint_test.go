package guardrails

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestSoftTaint: by itself, kube-scheduler binds the next pod to an empty node. With our soft taint on that
// node, the pod goes to the node in use.
func TestSoftTaint(t *testing.T) {
	e, k := typed(t)
	ctx := t.Context()
	require.NoError(t, e.Namespace(ctx, "soft-taint", nil))
	nodes, pods := k.CoreV1().Nodes(), k.CoreV1().Pods("soft-taint")
	for _, name := range []string{"soft-used", "soft-empty"} {
		require.NoError(t, e.Create(ctx, strings.ReplaceAll(`
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {group: soft, step: NAME}, annotations: {kwok.x-k8s.io/node: fake}}
status: {capacity: {cpu: "64", memory: 512Gi, pods: "110"}, allocatable: {cpu: "64", memory: 512Gi, pods: "110"}}
`, "NAME", name)))
		t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	// on returns the node that the scheduler chooses among nodes with a label.
	on := func(name, cpu, key, value string) (node string) {
		t.Helper()
		require.NoError(t, e.Create(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: soft-taint, name: %s}
spec: {nodeSelector: {%s: %s}, containers: [{name: c, image: c, resources: {requests: {cpu: %q}}}]}
`, name, key, value, cpu)))
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
	// When the scheduler has bound a pod by a node's label, it has seen that version of the node.
	on("load", "16", "step", "soft-used")
	on("seen", "0", "step", "soft-empty")
	if node := on("spread", "1", "group", "soft"); node != "soft-empty" {
		t.Fatalf("without a taint the pod went to %s, want the empty node: this test shows nothing", node)
	}
	require.NoError(t, pods.Delete(ctx, "spread", *metav1.NewDeleteOptions(0)))
	taint := fmt.Sprintf(`{"metadata":{"labels":{"step":"tainted"}},"spec":{"taints":[{"key":%q,"effect":"PreferNoSchedule"}]}}`, v1alpha1.EmptyTaint)
	_, err := nodes.Patch(ctx, "soft-empty", types.MergePatchType, []byte(taint), metav1.PatchOptions{})
	require.NoError(t, err)
	on("seen-tainted", "0", "step", "tainted") // this pod fits everywhere
	if node := on("packed", "1", "group", "soft"); node != "soft-used" {
		t.Errorf("with the soft taint the pod went to %s, want the node in use", node)
	}
}

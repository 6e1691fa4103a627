package node

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscale/gpuscale/internal/require"
)

// step lets the agent look at the objects of a fake client.
func step(t *testing.T, a *Agent, client *fake.Clientset, now time.Time) *corev1.Node {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	require.NoError(t, a.Step(t.Context(), n, pods, nil, now))
	n, err = client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	return n
}

func gpuPod(name string, n int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: name, UID: "uid-1"},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{wholeGPU: *resource.NewQuantity(n, resource.DecimalSI)},
		}}}},
	}
}

// TestAgentWritesTheNode; sandbox/chart has that the exporter reads its PodResources.
func TestAgentWritesTheNode(t *testing.T) {
	ctx, now := context.Background(), time.Unix(100, 0)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	m, err := New(Spec{Name: "a", Product: "NVIDIA-L40S", GPUs: 2}, now)
	require.NoError(t, err)
	a := NewAgent(m, client, slog.New(slog.DiscardHandler))
	n := step(t, a, client, now)
	if q := n.Status.Allocatable[wholeGPU]; q.Value() != 2 || n.Labels["nvidia.com/gpu.product"] != "NVIDIA-L40S" {
		t.Errorf("allocatable %v, labels %v", n.Status.Allocatable, n.Labels)
	}
	writes := len(client.Actions())
	step(t, a, client, now)
	for _, act := range client.Actions()[writes:] {
		if act.GetVerb() == "patch" {
			t.Error("a step in which nothing changed writes")
		}
	}
	_, err = client.CoreV1().Pods("batch").Create(ctx, gpuPod("train-0", 1), metav1.CreateOptions{})
	require.NoError(t, err)
	tooMuch := gpuPod("train-1", 2)
	tooMuch.UID = "uid-2"
	_, err = client.CoreV1().Pods("batch").Create(ctx, tooMuch, metav1.CreateOptions{})
	require.NoError(t, err)
	step(t, a, client, now)
	refused, _ := client.CoreV1().Pods("batch").Get(ctx, "train-1", metav1.GetOptions{})
	if refused.Status.Phase != corev1.PodFailed || refused.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("a pod without devices is %s %s", refused.Status.Phase, refused.Status.Reason)
	}
}

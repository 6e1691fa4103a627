package node

import (
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
)

// step runs one step of the agent on the objects of a fake client.
func step(t *testing.T, a *Agent, now time.Time) *corev1.Node {
	t.Helper()
	var n corev1.Node
	require.NoError(t, a.client.Get(t.Context(), client.ObjectKey{Name: "a"}, &n))
	var list corev1.PodList
	require.NoError(t, a.client.List(t.Context(), &list))
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	require.NoError(t, a.Step(t.Context(), &n, pods, nil, now))
	require.NoError(t, a.client.Get(t.Context(), client.ObjectKey{Name: "a"}, &n))
	return &n
}

func gpuPod(name string, uid types.UID, n int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "batch", Name: name, UID: uid},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{wholeGPU: *resource.NewQuantity(n, resource.DecimalSI)},
		}}}},
	}
}

// TestAgentWritesTheNode tests what the agent writes. sandbox/chart tests that the exporter reads its
// PodResources.
func TestAgentWritesTheNode(t *testing.T) {
	now := time.Unix(100, 0)
	c := kubefake.New(scheme.Scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"nvidia.com/mig-1g.10gb.count": "7"}}}).Build()
	m, err := New(Spec{Name: "a", Product: "NVIDIA-L40S", GPUs: 2}, now)
	require.NoError(t, err)
	a := NewAgent(m, c, slog.New(slog.DiscardHandler))
	n := step(t, a, now)
	if q := n.Status.Allocatable[wholeGPU]; q.Value() != 2 || n.Labels["nvidia.com/gpu.product"] != "NVIDIA-L40S" || n.Labels["nvidia.com/mig.strategy"] != "mixed" || n.Labels["nvidia.com/mig-1g.10gb.count"] != "" {
		t.Errorf("allocatable %v, labels %v", n.Status.Allocatable, n.Labels)
	}
	if again := step(t, a, now); again.ResourceVersion != n.ResourceVersion {
		t.Error("a step in which nothing changed writes")
	}
	tooMuch := gpuPod("train-1", "uid-2", 2)
	require.NoError(t, c.Create(t.Context(), gpuPod("train-0", "uid-1", 1)))
	require.NoError(t, c.Create(t.Context(), tooMuch))
	step(t, a, now)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(tooMuch), tooMuch))
	if tooMuch.Status.Phase != corev1.PodFailed || tooMuch.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("a pod without devices is %s %s", tooMuch.Status.Phase, tooMuch.Status.Reason)
	}
}

// TestManagedLabelsAreWritten: mig-manager's labels are written even if an outdated cache says that they are
// set.
func TestManagedLabelsAreWritten(t *testing.T) {
	stale := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "success"}}}
	c := kubefake.New(scheme.Scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "pending"}}}).Build()
	m, err := New(Spec{Name: "a", Product: "NVIDIA-L40S", GPUs: 2}, time.Unix(100, 0))
	require.NoError(t, err)
	a := NewAgent(m, c, slog.New(slog.DiscardHandler))
	require.NoError(t, a.label(t.Context(), stale, map[string]string{"x": "success"}, nil))
	var n corev1.Node
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "a"}, &n))
	if n.Labels["x"] != "success" {
		t.Errorf("labels %v", n.Labels)
	}
}

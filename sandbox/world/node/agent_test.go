package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

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

func TestAgentWritesTheNodeAndServesPodResources(t *testing.T) {
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
	asks(t, a, now)
}

// asks the PodResources socket as the exporter does.
func asks(t *testing.T, a *Agent, now time.Time) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	k, err := Listen(socket, a.Machine, &a.Lock, func() time.Time { return now })
	require.NoError(t, err)
	defer k.Stop()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	client := podresources.NewPodResourcesListerClient(conn)
	list, err := client.List(context.Background(), &podresources.ListPodResourcesRequest{})
	require.NoError(t, err)
	uuid := a.Machine.GPUs()[0].UUID
	if len(list.PodResources) != 1 || list.PodResources[0].Name != "train-0" ||
		list.PodResources[0].Containers[0].Devices[0].DeviceIds[0] != uuid {
		t.Errorf("List: %v", list)
	}
	all, err := client.GetAllocatableResources(context.Background(), &podresources.AllocatableResourcesRequest{})
	if err != nil || len(all.Devices) != 2 {
		t.Errorf("GetAllocatableResources: %v, %v", all, err)
	}
	if _, err := client.Get(context.Background(), &podresources.GetPodResourcesRequest{PodNamespace: "batch", PodName: "train-0"}); err != nil {
		t.Error(err)
	}
	_, err = client.Get(context.Background(), &podresources.GetPodResourcesRequest{PodNamespace: "batch", PodName: "unknown"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Get of an unknown pod: %v", err)
	}
}

func TestKubeletGroupsContainersAndResources(t *testing.T) {
	now := time.Unix(0, 0)
	m, _ := New(Spec{Name: "a", Product: "NVIDIA-L40S", GPUs: 4}, now)
	m.Sync([]Pod{{Namespace: "n", Name: "p", UID: "1", Containers: []Container{
		{"one", map[string]int{wholeGPU: 2}}, {"two", map[string]int{wholeGPU: 1}},
	}}}, now)
	k := &Kubelet{machine: m, lock: &sync.Mutex{}, clock: func() time.Time { return now }}
	pods := k.pods()
	if len(pods) != 1 || len(pods[0].Containers) != 2 || len(pods[0].Containers[0].Devices[0].DeviceIds) != 2 {
		t.Errorf("got %v", pods)
	}
}

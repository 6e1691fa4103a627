package world

import (
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/e2e"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

func demo(t *testing.T) story.Story {
	t.Helper()
	s, err := story.Parse(e2e.Demo())
	require.NoError(t, err)
	return s
}

func TestServersFollowTheirPods(t *testing.T) {
	s := demo(t)
	now := time.Unix(0, 0)
	g := model.NewGateway(model.Chat13B(), 20, func() time.Time { return now })
	srv := newServers(s, g, &pages{}, slog.New(slog.DiscardHandler))
	product := func(string) string { return "NVIDIA-H100-80GB-HBM3" }
	pod := func(uid string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "vllm-1-a", UID: types.UID(uid), Labels: map[string]string{appLabel: "vllm"}},
			Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	pending := pod("1")
	pending.Status.Phase = corev1.PodPending
	srv.sync([]*corev1.Pod{pending}, product)
	if len(srv.running()) != 0 {
		t.Error("a pending pod serves")
	}
	srv.sync([]*corev1.Pod{pod("1")}, product)
	if len(srv.running()) != 1 {
		t.Fatal("a running pod does not serve")
	}
	require.NoError(t, g.Play(trace.Trace{Requests: make([]trace.Request, 0)}))
	allocated := []node.Holding{
		{Namespace: "chat", Pod: "vllm-1-a", UID: "1", ID: "MIG-1"},
		{Namespace: "search", Pod: "embed-5-b", UID: "2", ID: "MIG-2"},
		{Namespace: "other", Pod: "x", UID: "3", ID: "MIG-3"},
	}
	now = now.Add(10 * time.Second)
	l := srv.loads(allocated, now)
	if l["MIG-1"].MemoryBytes < 30<<30 || l["MIG-2"].Busy != 0.3 || l["MIG-3"].Busy != 0 {
		t.Errorf("loads %+v", l)
	}
	srv.sync([]*corev1.Pod{pod("other")}, product) // the same name, another pod
	if got, _ := g.Load("chat/vllm-1-a"); got.Ready {
		t.Error("the new pod's model is loaded at once")
	}
	srv.sync(nil, product)
	if _, ok := g.Load("chat/vllm-1-a"); ok || len(srv.running()) != 0 {
		t.Error("a server outlives its pod")
	}
}

func TestSliceOf(t *testing.T) {
	got, err := sliceOf("NVIDIA-H100-80GB-HBM3", "nvidia.com/mig-3g.40gb", 1)
	if err != nil || got.Compute != 3 || got.GPUCompute != 7 || got.Memory != 4 || got.GPUMemory != 8 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := sliceOf("NVIDIA-L40S", "nvidia.com/mig-3g.40gb", 1); err == nil {
		t.Error("an L40S has instances")
	}
	if got, err := sliceOf("NVIDIA-L40S", "nvidia.com/gpu", 1); err != nil || got.Bytes < 40<<30 {
		t.Errorf("%+v, %v", got, err)
	}
}

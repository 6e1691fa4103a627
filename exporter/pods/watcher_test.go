package pods

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/internal/await"
)

// fakeKubelet is the PodResources service with one pod.
type fakeKubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	mu   sync.Mutex
	pod  string
	fail error
}

func (k *fakeKubelet) set(pod string, fail error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pod, k.fail = pod, fail
}

func (k *fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail != nil {
		return nil, k.fail
	}
	devices := func(resource string, ids ...string) *podresources.ContainerDevices {
		return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
	}
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Name: k.pod, Namespace: "ns", Containers: []*podresources.ContainerResources{
			{Name: "main", Devices: []*podresources.ContainerDevices{
				devices("nvidia.com/mig-1g.10gb", "MIG-1"), devices("nvidia.com/gpu", "GPU-b", "GPU-a"),
				devices("rdma/hca", "mlx5_0"), devices("nvidia.com/hostdev", "0000:03:00.0"), devices("nvidia.com/renamed", "GPU-d::1"), devices("example.com/gpu", "GPU-c"),
			}},
			{Name: "sidecar"},
		},
	}}}, nil
}

// serveKubelet listens on a socket until the returned stop.
func serveKubelet(t *testing.T, socket string, k podresources.PodResourcesListerServer) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

func watch(t *testing.T, o Options) *Watcher {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func TestWatcherKeepsTheLastAnswerForAWhile(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := &fakeKubelet{pod: "first"}
	stop := serveKubelet(t, socket, k)
	w := watch(t, Options{Socket: socket, Interval: 100 * time.Millisecond, Keep: time.Minute, Resources: []string{"example.com/gpu"}})
	<-w.Answered()
	s := w.Snapshot(time.Now())
	if s == nil || w.Err() != nil {
		t.Fatalf("no answer: %v", w.Err())
	}
	var ids []string
	for _, c := range s.Claims {
		if c.Holder.Namespace != "ns" || c.Holder.Pod != "first" || c.Holder.Container != "main" {
			t.Errorf("claim of %+v", c.Holder)
		}
		ids = append(ids, c.DeviceID)
	}
	if want := []string{"GPU-c", "GPU-a", "GPU-b", "MIG-1", "GPU-d::1"}; !slices.Equal(ids, want) {
		t.Errorf("devices %q, want %q", ids, want)
	}
	<-w.Changed()

	k.set("second", nil)
	<-w.Changed()
	if got := w.Snapshot(time.Now()).Claims[0].Holder.Pod; got != "second" {
		t.Errorf("after the change: %s", got)
	}

	stop() // the kubelet restarts
	await.True(t, 10*time.Second, "the failure is noticed", func() bool { return w.Err() != nil })
	if w.Snapshot(time.Now()) == nil {
		t.Error("the last answer was thrown away at once")
	}
	if w.Snapshot(time.Now().Add(2*time.Minute)) != nil {
		t.Error("the last answer is used for ever")
	}
	if w.Asked().IsZero() || w.Errors() == 0 {
		t.Errorf("asked %s, %d errors", w.Asked(), w.Errors())
	}
	serveKubelet(t, socket, k)
	await.True(t, 10*time.Second, "the kubelet is found again", func() bool { return w.Err() == nil })
}

func TestWatcherWithoutKubelet(t *testing.T) {
	w := watch(t, Options{Socket: filepath.Join(t.TempDir(), "none"), Interval: 100 * time.Millisecond})
	<-w.Answered()
	if w.Err() == nil || w.Snapshot(time.Now()) != nil || !w.Asked().IsZero() {
		t.Errorf("err %v, snapshot %v", w.Err(), w.Snapshot(time.Now()))
	}
}

func TestWatcherRefusedIsNoAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	serveKubelet(t, socket, &fakeKubelet{fail: errors.New("rate limited")})
	w := watch(t, Options{Socket: socket, Interval: 100 * time.Millisecond})
	<-w.Answered()
	if w.Snapshot(time.Now()) != nil {
		t.Error("an error became an empty answer: every card would look free")
	}
}

func TestNewRefusesBusyLoop(t *testing.T) {
	if _, err := New(Options{Interval: time.Millisecond}); err == nil {
		t.Error("asking every millisecond was accepted")
	}
}

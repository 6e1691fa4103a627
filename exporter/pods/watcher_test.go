package pods

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/internal/require"
)

// several is a pod with devices of all kinds, of which GPUs count.
func several(name string) *podresources.PodResources {
	devices := func(resource string, ids ...string) *podresources.ContainerDevices {
		return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
	}
	return &podresources.PodResources{Name: name, Namespace: "ns", Containers: []*podresources.ContainerResources{
		{Name: "main", Devices: []*podresources.ContainerDevices{
			devices("nvidia.com/mig-1g.10gb", "MIG-1"), devices("nvidia.com/gpu", "GPU-b", "GPU-a"),
			devices("rdma/hca", "mlx5_0"), devices("nvidia.com/hostdev", "0000:03:00.0"), devices("nvidia.com/renamed", "GPU-d::1"), devices("example.com/gpu", "GPU-c"),
		}},
		{Name: "sidecar"},
	}}
}

// serveKubelet listens on a socket until the returned stop.
func serveKubelet(t *testing.T, socket string, k podresources.PodResourcesListerServer) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

func watch(t *testing.T, o Options) *Watcher {
	t.Helper()
	w, err := New(o)
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() { w.Run(t.Context()) }) // which ends before the cleanup
	t.Cleanup(running.Wait)
	return w
}

func TestWatcher(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := &scripted{}
	k.say(several("first"))
	serveKubelet(t, socket, k)
	l, err := net.Listen("tcp", "127.0.0.1:0") // an API server that does not answer
	require.NoError(t, err)
	defer l.Close()
	hanging, err := NewAPI(&rest.Config{Host: l.Addr().String()})
	require.NoError(t, err)
	w, began := watch(t, Options{Socket: socket, Interval: 100 * time.Millisecond, Resources: []string{"example.com/gpu"}, API: hanging, DRA: true}), time.Now()
	<-w.Answered()
	s := w.Snapshot(time.Now())
	if s == nil || w.Err() != nil || time.Since(began) > Timeout/2 {
		t.Fatalf("after %s with an API server that hangs: %v", time.Since(began), w.Err())
	}
	var ids []string
	for _, c := range s.Claims {
		if c.Allocation.Namespace != "ns" || c.Allocation.Pod != "first" || c.Allocation.Container != "main" {
			t.Errorf("claim of %+v", c.Allocation)
		}
		ids = append(ids, c.DeviceID)
	}
	if want := []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d::1", "MIG-1"}; !slices.Equal(ids, want) {
		t.Errorf("devices %q, want %q", ids, want)
	}
	<-w.Changed()

	k.say(several("second"))
	<-w.Changed()
	if got := w.Snapshot(time.Now()).Claims[0].Allocation.Pod; got != "second" {
		t.Errorf("after the change: %s", got)
	}
}

// Without a kubelet, or if it refuses, there is no answer: an empty one would make every GPU free.
func TestWatcherWithoutAnswer(t *testing.T) {
	refusing := filepath.Join(t.TempDir(), "kubelet.sock")
	serveKubelet(t, refusing, &scripted{err: errors.New("rate limited")})
	for _, socket := range []string{refusing, filepath.Join(t.TempDir(), "none")} {
		w := watch(t, Options{Socket: socket, Interval: 100 * time.Millisecond})
		<-w.Answered()
		if a, _ := w.Attribute(twoGPUs, time.Now()); w.Err() == nil || w.Snapshot(time.Now()) != nil || !a.Taken.IsZero() {
			t.Errorf("err %v, snapshot %v", w.Err(), w.Snapshot(time.Now()))
		}
	}
}

// asked is an API server that records the times of requests.
type asked struct{ at []time.Duration }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Since(bubble))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"items":[]}`)), Request: r}, nil
}

// bubble is when a synctest begins.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// The API server is asked when the kubelet's answer has changed. Ten seconds later it is read again for what was written
// since.
func TestClusterIsAskedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		api, err := NewAPI(&rest.Config{Host: "http://kube.test", Transport: a})
		require.NoError(t, err)
		c := newCluster(Options{
			API: api, Node: "node-1",
			PodText: func(*Pod) string { return "" }, Log: slog.New(slog.DiscardHandler),
		})
		var running sync.WaitGroup
		running.Go(func() { c.run(t.Context(), func() {}) })
		t.Cleanup(running.Wait)
		for _, at := range []time.Duration{33 * time.Second, 33 * time.Second, 33500 * time.Millisecond} {
			time.Sleep(at - time.Since(bubble))
			c.poke()
			synctest.Wait()
		}
		time.Sleep(59*time.Second - time.Since(bubble))
		synctest.Wait()
		want := []time.Duration{0, 33 * time.Second, 33 * time.Second, 33500 * time.Millisecond, 43500 * time.Millisecond}
		if !slices.Equal(a.at, want) {
			t.Errorf("asked at %v, want at %v", a.at, want)
		}
	})
}

package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

// scripted is a scripted PodResources service.
type scripted struct {
	podresources.UnimplementedPodResourcesListerServer
	mu     sync.Mutex
	answer []*podresources.PodResources
	err    error
	hang   chan struct{} // List waits for it
	given  time.Duration // for the newest answer
}

func (k *scripted) say(pods ...*podresources.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answer, k.err = pods, nil
}

func (k *scripted) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	hang, answer, err := k.hang, k.answer, k.err
	until, _ := ctx.Deadline()
	k.given = time.Until(until)
	k.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &podresources.ListPodResourcesResponse{PodResources: answer}, err
}

// holds is a pod whose container main has devices of nvidia.com/gpu.
func holds(name string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ns", Name: name, Containers: []*podresources.ContainerResources{{
		Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: ids}},
	}}}
}

// claims is a pod whose container main has a device through a resource claim.
func claims(name, device string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ns", Name: name, Containers: []*podresources.ContainerResources{{
		Name: "main", DynamicResources: []*podresources.DynamicResource{{ClaimName: name + "-claim", ClaimNamespace: "ns", ClaimResources: []*podresources.ClaimResource{
			{DriverName: nvidiaDriver, PoolName: "node-1", DeviceName: device}, {DriverName: "compute-domain.nvidia.com", PoolName: "node-1", DeviceName: "channel-0"},
		}}},
	}}}
}

// asking returns a Watcher that reads on demand, its clock and the kubelet.
func asking(t *testing.T, o Options) (w *Watcher, k *scripted, clock *time.Time, restart func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k = &scripted{}
	stop := serveKubelet(t, socket, k)
	now := noon
	o.Socket, o.now = socket, func() time.Time { return now }
	w, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { w.kubelet.Close() })
	return w, k, &now, func() {
		stop()
		w.kubelet.WaitForStateChange(t.Context(), connectivity.Ready) // the old connection's end is noticed
		stop = serveKubelet(t, socket, k)
	}
}

func named(pod string) collect.PodName { return collect.PodName{Namespace: "ns", Name: pod} }

var twoGPUs = &collect.Reading{Entities: []collect.Entity{{Kind: collect.GPU, UUID: "GPU-a"}, {Kind: collect.GPU, GPU: 1, Index: 1, UUID: "GPU-b"}}}

// who returns the names of the pods that GPU i is allocated to.
func who(w *Watcher, now time.Time, i int) string {
	a, _ := w.Attribute(twoGPUs, now)
	var names []string
	if i < len(a.Allocations) {
		for _, h := range a.Allocations[i] {
			names = append(names, h.Pod)
		}
	}
	return strings.Join(names, ",")
}

func TestSlowKubelet(t *testing.T) {
	w, k, clock, _ := asking(t, Options{})
	k.say(holds("p", "GPU-a"))
	w.ask(t.Context())
	if who(w, *clock, 0) != "p" {
		t.Fatal("no pod")
	}
	k.mu.Lock()
	if k.hang = make(chan struct{}); k.given < Timeout/2 {
		t.Errorf("a kubelet short of CPU has %s to answer", k.given)
	}
	k.mu.Unlock()
	*clock = clock.Add(10 * time.Second)
	w.opts.limit = time.Second
	w.ask(t.Context()) // returns by its own limit
	if status.Code(errors.Unwrap(w.Err())) != codes.DeadlineExceeded {
		t.Errorf("err = %v", w.Err())
	}
	a, _ := w.Attribute(twoGPUs, *clock)
	if a.Allocations[0][0].Pod != "p" || !a.Taken.Equal(noon) {
		t.Errorf("the last answer is not kept with its age: %+v", a)
	}
	if who(w, noon.Add(keep+time.Second), 0) != "" {
		t.Error("the last answer is kept for ever")
	}
	if a, _ := w.Attribute(twoGPUs, noon.Add(time.Hour)); !a.Taken.Equal(noon) {
		t.Error("the age is gone with the allocations")
	}
}

// A kubelet that has just started lists no pods, then some, then all. Meanwhile no series loses its pod.
func TestKubeletRestarts(t *testing.T) {
	w, k, clock, restart := asking(t, Options{})
	step := func(after time.Duration, want string, pods ...*podresources.PodResources) {
		t.Helper()
		*clock = clock.Add(after)
		k.say(pods...)
		w.ask(t.Context())
		if w.Err() != nil {
			t.Fatal(w.Err())
		}
		if got := who(w, *clock, 0) + "/" + who(w, *clock, 1); got != want {
			t.Errorf("%s: %s, want %s", clock.Sub(noon), got, want)
		}
	}
	step(0, "p/q", holds("p", "GPU-a"), holds("q", "GPU-b"))
	step(time.Second, "p/", holds("p", "GPU-a")) // q has ended, for certain
	step(time.Second, "p/q", holds("p", "GPU-a"), holds("q", "GPU-b"))

	restart()
	step(time.Second, "p/q")
	asked := func() time.Time { a, _ := w.Attribute(twoGPUs, *clock); return a.Taken }
	if taken := asked(); !taken.Equal(noon.Add(2 * time.Second)) {
		t.Errorf("an answer that is not believed makes the map look fresh: %s", taken.Sub(noon))
	}
	step(time.Second, "p/q", holds("p", "GPU-a"))
	step(time.Second, "p/q", holds("p", "GPU-a"), holds("q", "GPU-b"))
	if !asked().Equal(*clock) {
		t.Error("a whole answer is not believed")
	}
	step(time.Second, "p/q,r", holds("p", "GPU-a"), holds("q", "GPU-b"), holds("r", "GPU-b")) // more pods are accepted at once
	step(time.Second, "p/q,r", holds("p", "GPU-a"), holds("r", "GPU-b"))                      // q may still come
	step(settle, "p/r", holds("p", "GPU-a"), holds("r", "GPU-b"))                             // q did not come in time
	step(time.Second, "/r", holds("r", "GPU-b"))
	step(time.Second, "/")
}

// Devices that do not exist, and one device that is allocated twice.
func TestLyingKubelet(t *testing.T) {
	w, k, clock, _ := asking(t, Options{})
	k.say(holds("p", "GPU-a"), holds("q", "GPU-a"), holds("r", "GPU-gone", "not a device"))
	w.ask(t.Context())
	if got := who(w, *clock, 0); got != "p,q" {
		t.Errorf("allocated to both: %s", got)
	}
	if _, unresolved := w.Attribute(twoGPUs, *clock); !slices.Equal(unresolved, []string{"GPU-gone", "not a device"}) {
		t.Errorf("unresolved %q", unresolved)
	}
	// The API server reports that q has ended.
	w.cluster.now.Store(&world{pods: map[collect.PodName]*Pod{named("q"): {Over: true}, named("p"): {}}})
	if got := who(w, *clock, 0); got != "p" {
		t.Errorf("with a pod that is over: %s", got)
	}
}

// A failure is logged with whether there is an earlier answer to keep.
func TestFailureSaysWhatIsKept(t *testing.T) {
	for _, before := range []bool{false, true} {
		var log bytes.Buffer
		s := &apiServer{pods: `{"items":[]}`}
		w, k, _, _ := asking(t, Options{API: serveAPI(t, s), PodText: func(*Pod) string { return "" }, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ask := func() {
			w.ask(t.Context())
			w.cluster.refresh(t.Context())
		}
		if before {
			ask()
		}
		k.err, s.failing = errors.New("rate limited"), true
		ask()
		if n := strings.Count(log.String(), fmt.Sprintf("keeps_last_answer=%v", before)); n != 2 {
			t.Errorf("answers before the failure: %v; logged %d times, want 2: %s", before, n, log.String())
		}
	}
}

func TestAnswerTooLarge(t *testing.T) {
	w, k, clock, _ := asking(t, Options{})
	k.say(holds("p", "GPU-a"))
	w.ask(t.Context())
	k.say(holds("p", "GPU-a"), holds(strings.Repeat("x", maxAnswer), "GPU-b"))
	w.ask(t.Context())
	if w.Err() == nil || who(w, *clock, 0) != "p" || w.Errors() != 1 {
		t.Errorf("err %v, pod %q, %d errors", w.Err(), who(w, *clock, 0), w.Errors())
	}
}

// apiServer answers the requests that a node agent may send, and no others.
type apiServer struct {
	mu      sync.Mutex
	pods    string
	slices  map[string]string // by API version
	paths   []string
	failing bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, r.Method+" "+r.URL.Path+"?"+r.URL.Query().Get("fieldSelector"))
	body, ok := s.pods, r.URL.Path == "/api/v1/pods"
	for version, text := range s.slices {
		if r.URL.Path == "/apis/resource.k8s.io/"+version+"/resourceslices" {
			body, ok = text, true
		}
	}
	switch {
	case s.failing:
		http.Error(w, `{"kind":"Status","apiVersion":"v1","message":"forbidden to gpuscale"}`, http.StatusForbidden)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write([]byte(body))
	}
}

func serveAPI(t *testing.T, s *apiServer) *API {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	api, err := NewAPI(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return api
}

// An instance is attributed by the kubelet's claims and the node's slices.
func TestDRA(t *testing.T) {
	s := &apiServer{slices: map[string]string{"v1beta1": resourceSlices}}
	var log bytes.Buffer
	w, k, clock, _ := asking(t, Options{API: serveAPI(t, s), Node: "node-1", DRA: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	k.say(claims("p", "gpu-0"), claims("q", "gpu-1-mig-3g40gb-9-0"))
	w.cluster.refresh(t.Context())
	w.ask(t.Context())
	r := &collect.Reading{Entities: []collect.Entity{
		{Kind: collect.GPU, UUID: "GPU-a"}, {Kind: collect.GPU, GPU: 1, Index: 1, UUID: "GPU-b"},
		{Kind: collect.Instance, GPU: 1, Index: 1, UUID: "GPU-b", InstanceID: 3, InstanceUUID: "MIG-1", Profile: "3g.40gb"},
	}}
	a, unresolved := w.Attribute(r, *clock)
	if len(unresolved) > 0 || len(a.Allocations[0]) != 1 || a.Allocations[0][0].Pod != "p" || len(a.Allocations[1]) != 0 || len(a.Allocations[2]) != 1 || a.Allocations[2][0].Pod != "q" {
		t.Fatalf("%+v, unresolved %q", a, unresolved)
	}
	want := collect.Claim{Name: "q-claim", Namespace: "ns", Driver: nvidiaDriver, Pool: "node-1", Device: "gpu-1-mig-3g40gb-9-0", MIGProfile: "3g.40gb", MIGUUID: "MIG-1"}
	if a.Allocations[2][0].Claim != want {
		t.Errorf("claim %+v", a.Allocations[2][0].Claim)
	}
	// The API server fails: its last answer stays.
	s.mu.Lock()
	s.failing = true
	s.mu.Unlock()
	for range 2 {
		w.cluster.refresh(t.Context())
	}
	if a, _ := w.Attribute(r, *clock); len(a.Allocations[2]) != 1 {
		t.Error("the slices are forgotten while the API server fails")
	}
	if strings.Count(log.String(), "forbidden to gpuscale") != 1 {
		t.Errorf("the failure is logged once: %s", log.String())
	}
	for _, path := range s.paths {
		if !strings.HasSuffix(path, "?spec.nodeName=node-1") || !strings.HasPrefix(path, "GET ") {
			t.Errorf("asked %s", path)
		}
	}
}

func TestDRAIsOptIn(t *testing.T) {
	var log bytes.Buffer
	w, k, clock, _ := asking(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	k.say(claims("p", "gpu-0"))
	w.ask(t.Context())
	w.ask(t.Context())
	if got := who(w, *clock, 0); got != "" {
		t.Errorf("gpu-0 was guessed to be %s's", got)
	}
	if strings.Count(log.String(), "--kubernetes-enable-dra") != 1 {
		t.Errorf("log: %s", log.String())
	}
}

// HAMi's ids do not identify the GPU. The log names the flag that attributes its pods, once.
func TestHAMiIsOptIn(t *testing.T) {
	const gpu = "GPU-5a1f2b3c-0000-4000-8000-000000000001"
	for ids, want := range map[string]int{gpu + "-3": 1, gpu + "::3": 0, gpu: 0} {
		var log bytes.Buffer
		w, k, _, _ := asking(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		k.say(holds("p", ids))
		w.ask(t.Context())
		w.ask(t.Context())
		if n := strings.Count(log.String(), "--kubernetes-fractional-gpus"); n != want {
			t.Errorf("%s: named %d times, want %d: %s", ids, n, want, log.String())
		}
	}
}

// In a fractional dialect the kubelet's ids are tokens, and the annotation counts.
func TestAnnotations(t *testing.T) {
	s := &apiServer{pods: `{"items":[{"metadata":{"name":"p","namespace":"ns","uid":"u","annotations":{"hami.io/vgpu-devices-allocated":"GPU-b,NVIDIA,4000,30:;"}},
		"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}]}`}
	w, k, clock, _ := asking(t, Options{API: serveAPI(t, s), Node: "node-1", Annotations: true})
	w.cluster.refresh(t.Context())
	k.say(holds("p", "GPU-a"), holds("plain", "GPU-a"))
	w.ask(t.Context())
	if a, b := who(w, *clock, 0), who(w, *clock, 1); a != "plain" || b != "p" {
		t.Errorf("GPU-a %q, GPU-b %q", a, b)
	}
	if !slices.Equal(s.paths, []string{"GET /api/v1/pods?spec.nodeName=node-1"}) {
		t.Errorf("asked %q", s.paths)
	}
}

// Only the node's pods are listed, and their texts are made from each answer. While the API server fails the last
// answer stays.
func TestPodTexts(t *testing.T) {
	s := &apiServer{pods: `{"items":[{"metadata":{"name":"p","namespace":"ns","uid":"u1","labels":{"app":"x"}}}]}`}
	w, k, clock, _ := asking(t, Options{API: serveAPI(t, s), Node: "node-1", PodText: func(p *Pod) string { return p.UID + " " + p.Labels["app"] }})
	k.say(holds("p", "GPU-a"))
	w.ask(t.Context())
	want := func(when, text string) {
		t.Helper()
		if a, _ := w.Attribute(twoGPUs, *clock); a.Pods[named("p")] != text {
			t.Errorf("%s: %q, want %q", when, a.Pods, text)
		}
	}
	want("before the first answer", "")
	w.cluster.refresh(t.Context())
	want("after it", "u1 x")
	s.pods = `{"items":[{"metadata":{"name":"p","namespace":"ns","uid":"u2"}}]}`
	w.cluster.refresh(t.Context())
	want("after a change", "u2 ")
	s.failing = true
	w.cluster.refresh(t.Context())
	want("while it fails", "u2 ")
	if i := slices.IndexFunc(s.paths, func(p string) bool { return p != "GET /api/v1/pods?spec.nodeName=node-1" }); i >= 0 {
		t.Errorf("asked for %s", s.paths[i])
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// api is an API server with one node and the device plugin's pods on it, in a process that continues when an agent is
// killed. A deleted plugin pod is replaced, as by a DaemonSet.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	node    corev1.Node
	plugins []string // UIDs
	made    int
	looks   int      // of the agents at their node
	log     []string // the writes: "note destroy 1g@4:1", "delete plugin-1"
	// before and after are called around the n-th write; before returns whether the write is lost.
	before func(n int) bool
	after  func(n int)
	broken bool // the device plugin does not return
}

func newAPI(t testing.TB) *api {
	a := &api{plugins: []string{"plugin-0"}, node: corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "uid-n", ResourceVersion: "1", Annotations: map[string]string{}, Labels: map[string]string{},
	}}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// changed gives the node another version.
func (a *api) changed() {
	version, _ := strconv.Atoi(a.node.ResourceVersion)
	a.node.ResourceVersion = strconv.Itoa(version + 1)
}

// set sets an annotation as another client would; "" removes it.
func (a *api) set(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node.Annotations[key] = value; value == "" {
		delete(a.node.Annotations, key)
	}
	a.changed()
}

// label sets a label as another client would.
func (a *api) label(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node.Labels[key] = value
	a.changed()
}

func (a *api) get(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node.Annotations[key]
}

// looked counts the agents' reads of their node.
func (a *api) looked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.looks
}

func (a *api) writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.log...)
}

// around sets before and after under the lock, which orders the calls of an agent in another
// process.
func (a *api) around(before func(n int) bool, after func(n int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.after = before, after
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	write := r.Method == http.MethodPatch || r.Method == http.MethodDelete
	a.mu.Lock()
	before, after, n := a.before, a.after, 0
	if write {
		a.log = append(a.log, "?")
		n = len(a.log)
	}
	a.mu.Unlock()
	if write && before != nil && before(n) {
		return
	}
	code, body := a.handle(r, n)
	if write && after != nil {
		after(n)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (a *api) handle(r *http.Request, n int) (int, any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path := r.URL.Path; {
	case r.URL.Query().Get("watch") != "":
		return http.StatusInternalServerError, status("no watch here", "InternalError", 500)
	case r.Method == http.MethodGet && path == "/api/v1/nodes/n":
		a.looks++
		return http.StatusOK, json.RawMessage(must(json.Marshal(a.node)))
	case r.Method == http.MethodPatch && path == "/api/v1/nodes/n/status":
		return a.patch(r, n)
	case r.Method == http.MethodGet && path == "/api/v1/namespaces/gpu-operator/pods" &&
		r.URL.Query().Get("fieldSelector") == "spec.nodeName=n" && r.URL.Query().Get("labelSelector") == "app=nvidia-device-plugin-daemonset":
		items := []any{}
		for _, uid := range a.plugins {
			items = append(items, map[string]any{
				"metadata": map[string]any{"name": uid, "namespace": "gpu-operator", "uid": uid},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
			})
		}
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": items}
	case r.Method == http.MethodDelete && strings.HasPrefix(path, "/api/v1/namespaces/gpu-operator/pods/"):
		uid := strings.TrimPrefix(path, "/api/v1/namespaces/gpu-operator/pods/")
		if !slices.Contains(a.plugins, uid) {
			return http.StatusNotFound, status("no pod "+uid, "NotFound", 404)
		}
		a.log[n-1] = "delete " + uid
		a.plugins = nil
		if !a.broken {
			a.made++
			a.plugins = []string{"plugin-" + strconv.Itoa(a.made)}
		}
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"}
	}
	return http.StatusForbidden, status(r.Method+" "+r.URL.String()+" is more than an agent may do", "Forbidden", 403)
}

func status(message, reason string, code int) any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
}

func (a *api) patch(r *http.Request, n int) (int, any) {
	var p struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		return http.StatusBadRequest, status(err.Error(), "BadRequest", 400)
	}
	if v := p.Metadata.ResourceVersion; v != "" && v != a.node.ResourceVersion {
		a.log[n-1] = "conflict"
		return http.StatusConflict, status("the node has changed", "Conflict", 409)
	}
	for key, value := range p.Metadata.Annotations {
		if value == nil {
			delete(a.node.Annotations, key)
			a.log[n-1] = "remove " + key
			continue
		}
		a.node.Annotations[key] = *value
		a.log[n-1] = "write " + key
		var answer struct{ State, Step string }
		if key == "gpuscale.io/mig-agent" && json.Unmarshal([]byte(*value), &answer) == nil {
			a.log[n-1] = fmt.Sprintf("%s: %s", answer.State, answer.Step)
		}
	}
	a.changed()
	return http.StatusOK, json.RawMessage(must(json.Marshal(a.node)))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// fake is the path of the compiled library.
var fake string

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	fakenvml.Main(m, &fake)
}

// fixedDriver has no CVE-2026-24197.
const fixedDriver = "580.159.03"

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// bench is a node: GPUs behind the fake NVML library, an API server, a kubelet, an exporter. All
// but the agent run in this process.
type bench struct {
	t        testing.TB
	api      *api
	config   Config
	path     string // of the GPUs' state
	state    fakenvml.State
	now      time.Time
	kubelet  *fakeKubelet
	exporter *fakeExporter
	self     string // the agent's own pod
	metrics  *Metrics
	driver   *hardware.NVML // one for all agents: go-nvml has one library a process
}

func newBench(t testing.TB, gpus ...fakenvml.GPU) *bench {
	t.Helper()
	if fake == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	dir := newDir(t)
	b := &bench{t: t, api: newAPI(t), config: defaultConfig(), path: filepath.Join(dir, "state"), now: start}
	b.config.KubeletSocket = filepath.Join(dir, "kubelet.sock")
	b.config.Exporter.Socket = filepath.Join(dir, "exporter.sock")
	b.config.Library = fake
	b.kubelet = serveKubelet(t, b.config.KubeletSocket)
	b.exporter = serveExporter(t, b.config.Exporter.Socket)
	b.set(fakenvml.State{Driver: fixedDriver, GPUs: gpus})
	t.Setenv(fakenvml.EnvState, b.path)
	return b
}

// newDir is a folder for sockets, whose paths must be short.
func newDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// clock is read by the agent and advanced by the API server's calls.
func (b *bench) clock() time.Time {
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	return b.now
}

func (b *bench) set(s fakenvml.State) {
	b.t.Helper()
	require.NoError(b.t, s.Write(b.path))
	b.state = s
}

func (b *bench) machine() fakenvml.State {
	b.t.Helper()
	s, err := fakenvml.Read(b.path)
	require.NoError(b.t, err)
	return s
}

func (b *bench) agent() *Agent {
	b.t.Helper()
	cluster, err := newCluster(&rest.Config{Host: b.api.URL, QPS: -1}, "n")
	require.NoError(b.t, err)
	kubelet, err := dialKubelet(b.config.KubeletSocket, b.self)
	require.NoError(b.t, err)
	if b.driver == nil {
		b.driver = hardware.New(b.config.Library, b.config.CallTimeout.Duration)
	}
	return New(Options{Cluster: cluster, Hardware: b.driver, Kubelet: kubelet, Config: b.config, Boot: "boot-1", Metrics: b.metrics, Now: b.clock})
}

// tick runs one tick of a new agent.
func (b *bench) tick() {
	b.t.Helper()
	if err := b.agent().Tick(b.t.Context()); err != nil {
		b.t.Logf("tick: %v", err)
	}
}

// answersAgain ends a hang of the driver, and waits for the call that is still in the driver.
func (b *bench) answersAgain() {
	b.t.Helper()
	b.state.Lines = nil
	b.set(b.state)
	b.config.CallTimeout, b.driver = metav1.Duration{Duration: 5 * time.Minute}, nil
	b.tick()
}

// order records an operation on GPU 0.
func (b *bench) order(before, target string, change ...func(*contract.Record)) contract.Record {
	r := contract.Record{ID: "op-1", GPU: 0, UUID: fakenvml.GPUUUID(0), Model: "H100-80GB", Actuator: contract.ActuatorAgent, Selected: true, Before: before, Target: target,
		Started: b.now, Deadline: b.now.Add(5 * time.Minute)}
	for _, c := range change {
		c(&r)
	}
	b.api.set(contract.RecordAnnotation, r.String())
	return r
}

func (b *bench) answer() contract.Answer {
	b.t.Helper()
	a, err := contract.ParseAnswer(b.api.get(contract.AgentAnnotation))
	require.NoError(b.t, err)
	return a
}

func (b *bench) report() contract.Report {
	b.t.Helper()
	r, err := contract.ParseReport(b.api.get(contract.LayoutAnnotation))
	require.NoError(b.t, err)
	return r
}

// layout of GPU 0, in the driver's names.
func (b *bench) layout() string {
	b.t.Helper()
	c := b.machine().GPUs[0]
	l, whole := c.Layout()
	if !whole {
		return "half: " + l.String()
	}
	if !c.MIG {
		return "whole"
	}
	table, _ := mig.NewTable(c.Spec)
	return table.Format(l)
}

// h100 is a GPU with a layout, "-" for no MIG; "!" before a placement marks one that a process
// uses.
func h100(t testing.TB, i int, layout string) fakenvml.GPU { return gpuOf(t, i, "H100-80GB", layout) }

func gpuOf(t testing.TB, i int, product, layout string) fakenvml.GPU {
	t.Helper()
	c, err := fakenvml.Product(i, product, layout)
	require.NoError(t, err)
	return c
}

// fakeKubelet is a PodResources socket. It lists only pods with devices; the real kubelet lists all active pods
// (pkg/kubelet/apis/podresources of Kubernetes 1.37.1, 2026-11-28).
type fakeKubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	mu        sync.Mutex
	allocated map[string]string // device: pod
	// resource name of the devices, and the driver of a claim of each pod.
	resource, driver string
}

func serveKubelet(t testing.TB, socket string) *fakeKubelet {
	t.Helper()
	k := &fakeKubelet{allocated: map[string]string{}, resource: "nvidia.com/mig-1g.10gb"}
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return k
}

func (k *fakeKubelet) give(device, pod string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.allocated[device] = pod
}

func (k *fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &podresources.ListPodResourcesResponse{}
	for _, device := range slices.Sorted(maps.Keys(k.allocated)) {
		c := &podresources.ContainerResources{Devices: []*podresources.ContainerDevices{
			{ResourceName: k.resource, DeviceIds: []string{device}}, {ResourceName: "rdma/hca", DeviceIds: []string{"mlx5_0"}},
		}}
		if k.driver != "" {
			c.DynamicResources = []*podresources.DynamicResource{{ClaimName: "c", ClaimNamespace: "team",
				ClaimResources: []*podresources.ClaimResource{{DriverName: k.driver}}}}
		}
		out.PodResources = append(out.PodResources, &podresources.PodResources{Namespace: "team", Name: k.allocated[device], Containers: []*podresources.ContainerResources{c}})
	}
	return out, nil
}

// fakeExporter is an exporter's socket.
type fakeExporter struct {
	mu       sync.Mutex
	quiesced map[string]bool
	asked    int
	// then, if set, is called while a GPU is being released.
	then   func()
	refuse string
}

func serveExporter(t testing.TB, socket string) *fakeExporter {
	t.Helper()
	e := &fakeExporter{quiesced: map[string]bool{}}
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = http.Serve(listener, e) }()
	return e
}

func (e *fakeExporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Op      string
		GPUs    []string
		Seconds int
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	e.mu.Lock()
	defer e.mu.Unlock()
	answer := map[string]any{"ok": true}
	switch {
	case err != nil || len(request.GPUs) == 0 || request.Op != "quiesce" && request.Op != "resume" || request.Op == "quiesce" && request.Seconds < 1:
		answer = map[string]any{"ok": false, "error": fmt.Sprintf("no request: %+v", request)}
	case e.refuse != "":
		answer = map[string]any{"ok": false, "error": e.refuse}
	}
	e.asked++
	for _, c := range request.GPUs {
		e.quiesced[c] = request.Op == "quiesce"
		if e.then != nil && request.Op == "quiesce" {
			e.then()
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (e *fakeExporter) isQuiesced(device string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quiesced[device]
}

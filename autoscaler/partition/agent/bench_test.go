package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

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
	self     string               // the agent's own pod
	client   kubernetes.Interface // instead of api
	metrics  *Metrics
	driver   *hardware.NVML // one for all agents: go-nvml has one library a process
}

func newBench(t testing.TB, gpus ...fakenvml.GPU) *bench {
	t.Helper()
	if fake == "" {
		t.Skip(fakenvml.ErrNoCompiler)
	}
	dir := newDir(t)
	b := &bench{t: t, api: newAPI(t), config: DefaultConfig(), path: filepath.Join(dir, "state"), now: start}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func failOnce(op string, code int) fakenvml.Fail { return fakenvml.Fail{Op: op, Code: code, Times: 1} }

// clock is read by the agent and advanced by the API server's calls.
func (b *bench) clock() time.Time {
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	return b.now
}

func (b *bench) set(s fakenvml.State) {
	b.t.Helper()
	if err := s.Write(b.path); err != nil {
		b.t.Fatal(err)
	}
	b.state = s
}

func (b *bench) machine() fakenvml.State {
	b.t.Helper()
	s, err := b.state.Read(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) agent() *Agent {
	b.t.Helper()
	cluster := NewCluster(b.kube(), "n")
	kubelet, err := DialKubelet(b.config.KubeletSocket, b.self)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.driver == nil {
		b.driver = hardware.New(b.config.Library, b.config.CallTimeout.Duration)
	}
	return New(Options{Cluster: cluster, Hardware: b.driver, PodResources: kubelet,
		Exporter: NewExporter(b.config.Exporter), Config: b.config, Boot: "boot-1", Metrics: b.metrics, Now: b.clock})
}

func (b *bench) kube() kubernetes.Interface {
	if b.client != nil {
		return b.client
	}
	return b.api.client()
}

// tick runs one tick of a new agent.
func (b *bench) tick() {
	b.t.Helper()
	if err := b.agent().Tick(b.t.Context()); err != nil {
		b.t.Logf("tick: %v", err)
	}
}

// answersAgain ends a hang of the driver, and waits for the hanging call, which is still in the
// driver.
func (b *bench) answersAgain() {
	b.t.Helper()
	b.state.Hang = false
	b.set(b.state)
	b.config.CallTimeout, b.driver = metav1.Duration{Duration: 5 * time.Minute}, nil
	b.tick()
}

// order records an operation on GPU 0.
func (b *bench) order(before, target string, change ...func(*partition.Record)) partition.Record {
	r := partition.Record{ID: "op-1", GPU: 0, UUID: fakenvml.GPUUUID(0), Model: "H100-80GB", Actuator: partition.ActuatorAgent, Selected: true, Before: before, Target: target,
		Started: b.now, Deadline: b.now.Add(5 * time.Minute)}
	for _, c := range change {
		c(&r)
	}
	b.api.set(partition.RecordAnnotation, r.String())
	return r
}

func (b *bench) answer() partition.Answer {
	b.t.Helper()
	a, err := partition.ParseAnswer(b.api.get(partition.AgentAnnotation))
	if err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *bench) report() partition.Report {
	b.t.Helper()
	r, err := partition.ParseReport(b.api.get(partition.LayoutAnnotation))
	if err != nil {
		b.t.Fatal(err)
	}
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
	table, ok := mig.ForModel(product)
	if !ok {
		t.Fatalf("no table of %s", product)
	}
	spec := table.Spec()
	c := fakenvml.GPU{UUID: fakenvml.GPUUUID(i), Name: "NVIDIA " + product, MemoryMiB: spec.MemoryMiB, MIG: layout != "-", Spec: spec}
	if layout == "-" || layout == "" {
		return c
	}
	for k, word := range strings.Fields(layout) {
		busy := word[0] == '!'
		if busy {
			word = word[1:]
		}
		l, err := mig.ParseLayout(table, word)
		if err != nil {
			t.Fatal(err)
		}
		m := fakenvml.Instance{ID: k + 1, Placement: l[0], Computes: fakenvml.Whole(fakenvml.MIGUUID(i, k))}
		if busy {
			m.PID = 1000 + k
		}
		c.Instances = append(c.Instances, m)
	}
	return c
}

// fakeKubelet is a PodResources socket.
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go e.talk(conn)
		}
	}()
	return e
}

func (e *fakeExporter) talk(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var request struct {
			Op      string
			GPUs    []string
			Seconds int
		}
		err := json.Unmarshal(lines.Bytes(), &request)
		e.mu.Lock()
		answer := map[string]any{"ok": true}
		switch {
		case err != nil || len(request.GPUs) == 0 || request.Op != "quiesce" && request.Op != "resume" || request.Op == "quiesce" && request.Seconds < 1:
			answer = map[string]any{"ok": false, "error": "no request: " + lines.Text()}
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
		e.mu.Unlock()
		_ = json.NewEncoder(conn).Encode(answer)
	}
}

func (e *fakeExporter) isQuiesced(device string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quiesced[device]
}

package chart

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/collect"
	exporter "github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// fleet is the fakes behind the cluster's GPU nodes. For each pod of the exporter's DaemonSet it has the
// machine's GPUs, its kubelet, and an exporter that reads both. It follows nodes and pods as they come and
// go. Each exporter is a target of Prometheus.
type fleet struct {
	env  *env
	view *node.Cached
	dir  string // folder of sockets; its path must be short
	stop func()

	mu    sync.Mutex
	hosts map[string]*host // by the exporter pod's name
	jobs  []string         // jobs that get the exporters' pages; others get empty pages
	spoil func(page []byte) []byte
	wrong error // error of the last pass
}

// host is one node's machine.
type host struct {
	lock    sync.Mutex // guards machine, which the kubelet uses too
	machine *node.Machine
	kubelet *node.Kubelet
	page    *httptest.Server
	end     context.CancelFunc
}

func (b *env) startFleet(context.Context) error {
	dir, err := os.MkdirTemp("", "kubelets-")
	if err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.Background())
	view, err := node.NewCached(life, b.Cluster.Client())
	if err != nil {
		cancel()
		return err
	}
	f := &fleet{env: b, view: view, dir: dir, hosts: map[string]*host{}, jobs: []string{exporterName}}
	var running sync.WaitGroup
	running.Go(func() { f.run(life) })
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		for _, h := range f.hosts {
			h.stop()
		}
		_ = os.RemoveAll(dir)
	})
	b.fleet = f
	return nil
}

// run follows the cluster until ctx ends.
func (f *fleet) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) {
		err := f.turn()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wrong = err
	}, 200*time.Millisecond)
}

func (f *fleet) turn() error {
	here := map[string]bool{}
	var list []cluster.TargetGroup
	for _, p := range f.view.Pods() {
		if p.Namespace != installed || p.Labels["app.kubernetes.io/name"] != exporterName {
			continue
		}
		n, there := f.view.Node(p.Spec.NodeName) // a deleted node's pod stays for a while
		if p.DeletionTimestamp != nil || !there || p.Status.Phase != corev1.PodRunning {
			continue
		}
		h := f.hosts[p.Name]
		if h == nil {
			var err error
			if h, err = f.boot(n); err != nil {
				return err
			}
			f.hosts[p.Name] = h
		}
		here[p.Name] = true
		h.allocate(f.view.PodsOn(n.Name))
		list = append(list, cluster.TargetGroup{Targets: []string{strings.TrimPrefix(h.page.URL, "http://")}, Labels: map[string]string{"namespace": installed, "pod": p.Name}})
	}
	for name, h := range f.hosts {
		if !here[name] {
			h.stop()
			delete(f.hosts, name)
		}
	}
	slices.SortFunc(list, func(a, b cluster.TargetGroup) int { return strings.Compare(a.Labels["pod"], b.Labels["pod"]) })
	for _, job := range exporterJobs {
		if err := f.env.writeTargets(job, list); err != nil {
			return err
		}
	}
	return nil
}

// boot starts a node's machine with the GPUs that its labels and resources state, or one GPU if they state
// none.
func (f *fleet) boot(n *corev1.Node) (*host, error) {
	name, product := n.Name, n.Labels["nvidia.com/gpu.product"]
	if product == "" {
		product = product100
	}
	whole := n.Status.Allocatable["nvidia.com/gpu"]
	spec := node.Spec{Name: name, Product: product, GPUs: max(1, int(whole.Value()))}
	if config := n.Labels["nvidia.com/mig.config"]; config != "" && config != "all-disabled" {
		layouts, err := story.Place(product, 1, story.Layout{{"1g.10gb": 7}})
		if err != nil {
			return nil, err
		}
		spec.Layouts = layouts
	}
	m, err := node.New(spec, time.Now())
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	h := &host{machine: m, end: cancel}
	socket := filepath.Join(f.dir, fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))
	if h.kubelet, err = node.Listen(socket, m, &h.lock); err != nil {
		return nil, err
	}
	allocated, err := pods.New(pods.Options{Socket: socket, Interval: 500 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	source, err := replay.NewSource(recorded(m), nil)
	if err != nil {
		return nil, err
	}
	e := exporter.New(exporter.Options{Options: collect.Options{Node: name, Interval: 500 * time.Millisecond}, Source: source, Pods: allocated})
	go e.Run(life)
	h.page = httptest.NewServer(f.spoiled(e.Handler()))
	return h, nil
}

// recorded returns a recording of the machine's GPUs, always half busy.
func recorded(m *node.Machine) []replay.Frame {
	var frame replay.Frame
	for _, c := range m.GPUs() {
		gpu := replay.Entity{
			Entity: collect.Entity{
				GPU: c.Index, UUID: c.UUID, Model: strings.ReplaceAll(m.Product(), "-", " "), PCIBusID: c.PCIBusID,
				DriverVersion: "580.95.05", MIG: c.MIG, GPUMaxCompute: 7,
			},
			Values: map[string]any{
				"DCGM_FI_DEV_GPU_UTIL": 50.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5, "DCGM_FI_DEV_POWER_USAGE": 310.0,
				"DCGM_FI_DEV_FB_TOTAL": 81920.0, "DCGM_FI_DEV_FB_USED": 40960.0, "DCGM_FI_DEV_FB_FREE": 40960.0, "DCGM_FI_DEV_GPU_TEMP": 61.0,
			},
		}
		for _, i := range c.Instances {
			gpu.Instances = append(gpu.Instances, replay.Entity{
				Entity: collect.Entity{
					InstanceID: i.ID, Profile: i.Profile, Start: i.Start, Size: i.Placement.Profile.Memory,
					ComputeSlices: i.Placement.Profile.Compute, InstanceUUID: i.UUID,
				},
				Values: map[string]any{"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.5, "DCGM_FI_DEV_FB_TOTAL": 9728.0, "DCGM_FI_DEV_FB_USED": 2048.0, "DCGM_FI_DEV_FB_FREE": 7680.0},
			})
		}
		frame.GPUs = append(frame.GPUs, gpu)
	}
	return []replay.Frame{frame}
}

// allocate gives devices to the pods that are bound to the node, as its kubelet would.
func (h *host) allocate(pods []*corev1.Pod) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.machine.Sync(node.PodsOf(pods), time.Now())
}

func (h *host) stop() {
	h.end()
	h.kubelet.Stop()
	h.page.Close()
}

// spoiled lets a test change all exporters' pages, and which jobs get them. Each job scrapes its own path.
func (f *fleet) spoiled(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		spoil, served := f.spoil, slices.Contains(f.jobs, strings.TrimPrefix(r.URL.Path, "/"))
		f.mu.Unlock()
		if !served {
			return
		}
		if spoil == nil {
			page.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding") // so that the answer is not compressed
		r.Header.Set("Accept", "text/plain;version=0.0.4")
		took := httptest.NewRecorder()
		page.ServeHTTP(took, r)
		w.Header().Set("Content-Type", took.Header().Get("Content-Type"))
		w.WriteHeader(took.Code)
		_, _ = w.Write(spoil(took.Body.Bytes()))
	})
}

// spoilMetrics changes the exporters' series from now on; nil restores them.
func (f *fleet) spoilMetrics(spoil func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

// scrapedBy sets which jobs get the exporters' pages.
func (f *fleet) scrapedBy(jobs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = jobs
}

// err returns the error that stops the fakes from working.
func (f *fleet) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrong
}

// without removes the lines of a series.
func without(name string) func([]byte) []byte {
	return func(page []byte) []byte {
		var out [][]byte
		for _, line := range bytes.SplitAfter(page, []byte("\n")) {
			if !bytes.HasPrefix(line, []byte(name+"{")) {
				out = append(out, line)
			}
		}
		return bytes.Join(out, nil)
	}
}

// saying replaces the value of a series on all its lines.
func saying(name, value string) func([]byte) []byte {
	return func(page []byte) []byte {
		var out [][]byte
		for _, line := range bytes.SplitAfter(page, []byte("\n")) {
			if at := bytes.LastIndexByte(line, ' '); at > 0 && bytes.HasPrefix(line, []byte(name+"{")) {
				line = fmt.Appendf(nil, "%s %s\n", line[:at], value)
			}
			out = append(out, line)
		}
		return bytes.Join(out, nil)
	}
}

package world

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/device"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// servers connects serving pods with simulated servers, and pods with the load of the devices allocated to
// them.
type servers struct {
	story   story.Story
	gateway *model.Gateway
	log     *slog.Logger

	mu   sync.Mutex
	pods map[string]*served // by namespace/name
}

// served is a pod that has a simulated server.
type served struct {
	uid   string
	busy  time.Duration // traffic time at the last measurement
	then  time.Time
	ratio float64
}

func newServers(s story.Story, g *model.Gateway, log *slog.Logger) *servers {
	return &servers{story: s, gateway: g, log: log, pods: map[string]*served{}}
}

// routes serves the metrics pages of all simulated servers, which are not processes.
func (s *servers) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+pagePath("{namespace}/{pod}"), func(w http.ResponseWriter, r *http.Request) {
		s.gateway.Handler(r.PathValue("namespace")+"/"+r.PathValue("pod")).ServeHTTP(w, r)
	})
}

func pagePath(key string) string { return "/pods/" + key + "/metrics" }

// sync starts servers for running pods and removes those whose pod is gone. product returns the GPU product
// of a node.
func (s *servers) sync(pods []*corev1.Pod, product func(node string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here := map[string]bool{}
	for _, p := range pods {
		w, ok := workloadOf(s.story, p)
		if !ok || w.Model == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		key := podKey(p)
		if old := s.pods[key]; old != nil && old.uid != string(p.UID) {
			s.end(key)
		}
		here[key] = true
		if s.pods[key] == nil {
			s.begin(key, string(p.UID), w, product(p.Spec.NodeName))
		}
	}
	for key := range s.pods {
		if !here[key] {
			s.end(key)
		}
	}
}

func (s *servers) begin(key, uid string, w story.Workload, product string) {
	slice, err := sliceOf(product, w.Resource, w.Count)
	if err == nil {
		err = s.gateway.Add(key, slice, w.Load)
	}
	s.pods[key] = &served{uid: uid}
	if err != nil {
		s.log.Warn("a server does not start", "pod", key, "error", err)
	}
}

func (s *servers) end(key string) {
	s.gateway.Remove(key)
	delete(s.pods, key)
}

// running lists the pods with a server, sorted.
func (s *servers) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.pods))
}

// loads returns the load of each allocated device. A pod loads all its devices equally.
func (s *servers) loads(allocated []node.Holding, now time.Time) map[string]device.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	devices := map[string]int{}
	for _, h := range allocated {
		devices[h.UID]++
	}
	out := map[string]device.Load{}
	for _, h := range allocated {
		l := s.load(h, now)
		l.MemoryBytes /= int64(devices[h.UID])
		out[h.ID] = l
	}
	return out
}

func (s *servers) load(h node.Holding, now time.Time) device.Load {
	key := h.Namespace + "/" + h.Pod
	if p := s.pods[key]; p != nil && p.uid == h.UID {
		l, ok := s.gateway.Load(key)
		if !ok {
			return device.Load{}
		}
		return device.Load{Busy: p.measure(l.Busy, now, s.gateway.Speed()), MemoryBytes: l.MemoryBytes}
	}
	for _, w := range s.story.Workloads {
		if w.Model == "" && w.Namespace == h.Namespace && strings.HasPrefix(h.Pod, w.Name+"-") {
			return device.Load{Busy: w.Busy, MemoryBytes: int64(w.MemoryGiB * (1 << 30))}
		}
	}
	return device.Load{}
}

// measure returns the share of time in which a server was busy since the last measurement.
func (p *served) measure(busy time.Duration, now time.Time, speed float64) float64 {
	passed := now.Sub(p.then).Seconds() * speed
	switch {
	case p.then.IsZero():
		p.busy, p.then = busy, now
	case passed > 0.2*speed: // shorter spans are too inaccurate
		p.ratio = min(1, max(0, (busy-p.busy).Seconds()/passed))
		p.busy, p.then = busy, now
	}
	return p.ratio
}

// sliceOf returns the hardware that a request for an extended resource gets on a product.
func sliceOf(product, resource string, count int) (model.Slice, error) {
	m, ok := gpu.ParseProduct(product)
	if !ok {
		return model.Slice{}, fmt.Errorf("unknown product %q", product)
	}
	if resource == partition.GPUResource {
		return model.Slice{Compute: 1, GPUCompute: 1, Memory: 1, GPUMemory: 1, Bytes: int64(m.MemoryMiB) << 20}, nil
	}
	name, ok := mig.ProfileOfResource(resource)
	if !ok {
		return model.Slice{}, fmt.Errorf("nothing serves on %q", resource)
	}
	table, ok := mig.ForModel(m.Name)
	if !ok {
		return model.Slice{}, fmt.Errorf("%s has no MIG", product)
	}
	p, ok := table.Exact(name)
	if !ok || count < 1 {
		return model.Slice{}, fmt.Errorf("%s has no profile %s", product, name)
	}
	return model.Slice{
		Compute: p.Compute, GPUCompute: table.ComputeSlices(),
		Memory: p.Memory, GPUMemory: table.MemorySlices(),
		Bytes: int64(table.MemoryMiB(p)) << 20,
	}, nil
}

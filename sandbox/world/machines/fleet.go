package machines

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/device"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// Exporter has what an exporter process needs.
type Exporter struct {
	Node   string
	Socket string // PodResources
	State  string // file of the DCGM fake
}

// Options of a Fleet; all are needed.
type Options struct {
	Story  story.Story
	Client client.Client
	Dir    string // where sockets and state files go; its path must be short
	Log    *slog.Logger
	// Loads returns the load of the allocated devices, by device id.
	Loads func(allocated []node.Holding, now time.Time) map[string]device.Load
	// Start starts an exporter. It serves at address until stop is called, and at the same address after a restart for
	// the same node.
	Start func(e Exporter) (address string, stop func(), err error)
}

// Fleet has all machines of the story's pools.
type Fleet struct {
	opts  Options
	pools map[string]story.Pool
	given map[string]story.Node // nodes of the story, which boot at once

	mu    sync.Mutex
	hosts map[string]*host
}

// New returns a fleet without machines.
func New(o Options) *Fleet {
	f := &Fleet{opts: o, pools: map[string]story.Pool{}, given: map[string]story.Node{}, hosts: map[string]*host{}}
	for _, p := range o.Story.Pools {
		f.pools[p.Name] = p
	}
	for _, n := range o.Story.Nodes {
		f.given[n.Name] = n
	}
	return f
}

// Step reads the cluster's nodes, their pods and the mig-parted file once, and does what is due. An error of
// one machine does not affect the others; all errors are joined.
func (f *Fleet) Step(ctx context.Context, nodes []*corev1.Node, podsOn func(node string) []*corev1.Pod, config []byte) error {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	here := map[string]bool{}
	var errs []error
	for _, n := range nodes {
		pool, ok := f.pools[n.Labels[v1alpha1.NodePoolLabel]]
		if !ok || n.DeletionTimestamp != nil {
			continue
		}
		h := f.hosts[n.Name]
		if h != nil && h.uid != n.UID {
			h.stop()
			h = nil
		}
		if h == nil {
			h = f.power(n, pool, now)
			f.hosts[n.Name] = h
		}
		here[n.Name] = true
		errs = append(errs, h.step(ctx, n, podsOn(n.Name), config, now))
	}
	for name, h := range f.hosts {
		if !here[name] {
			h.stop()
			delete(f.hosts, name)
			f.opts.Log.Info("machine gone", "node", name)
		}
	}
	return errors.Join(errs...)
}

// power starts a new machine.
func (f *Fleet) power(n *corev1.Node, pool story.Pool, now time.Time) *host {
	h := &host{opts: &f.opts, name: n.Name, uid: n.UID, pool: pool, dir: filepath.Join(f.opts.Dir, n.Name)}
	given, ok := f.given[n.Name]
	if !ok {
		h.layout, h.bootAt = pool.Layout, now.Add(pool.Boot)
		f.opts.Log.Info("machine boots", "node", n.Name, "after", pool.Boot)
		return h
	}
	h.layout, h.bootAt = given.Layout, now
	if len(h.layout) == 0 {
		h.layout = pool.Layout
	}
	return h
}

// Stop ends all machines.
func (f *Fleet) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, h := range f.hosts {
		h.stop()
		delete(f.hosts, name)
	}
}

// Targets returns the addresses of exporters that run or are paused, by node.
func (f *Fleet) Targets() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for _, h := range f.hosts {
		if h.address != "" {
			out[h.name] = h.address
		}
	}
	return out
}

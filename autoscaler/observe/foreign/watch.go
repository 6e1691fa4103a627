package foreign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Watcher caches the objects of all kinds that a cluster serves.
type Watcher struct {
	Client    dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Classes of ProvisioningRequests to serve; without any, none is served.
	Classes []string
	// Every is the interval of API discovery.
	Every time.Duration
	// Changed is called on every change that is worth a reconcile, and not for fields that are not read. It must not block.
	Changed func()
	Log     *slog.Logger

	mu      sync.Mutex
	asked   bool // discovery has succeeded once
	running map[Kind]*running
}

// patience bounds the wait for a kind before the others are used without it: without the permission to list a kind, its
// cache never syncs.
const patience = 30 * time.Second

// ErrNotYet means that the cluster's objects are still being listed.
var ErrNotYet = errors.New("other APIs' objects have not been listed yet")

// running is the informer of one kind.
type running struct {
	gvr      schema.GroupVersionResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	since    time.Time
}

// Run watches until ctx ends. It always returns nil: discovery is retried.
func (w *Watcher) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if err := w.refresh(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("API discovery failed; the known APIs stay", "err", err)
		}
	}, w.Every)
	return nil
}

// Objects returns the cached objects. A kind that is not listed completely is absent: a part of the objects must not
// look like all of them. While the watch may just have started, the error is ErrNotYet.
func (w *Watcher) Objects() (Objects, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked {
		return nil, ErrNotYet
	}
	out := Objects{}
	for k, r := range w.running {
		if !r.informer.HasSynced() {
			if time.Since(r.since) < patience {
				return nil, fmt.Errorf("%w: %s", ErrNotYet, k)
			}
			continue
		}
		out[k] = map[Key]*Object{} // also without objects: that there are none is known
		for _, item := range r.informer.GetStore().List() {
			if o, ok := item.(*Object); ok {
				out.Add(o)
			}
		}
	}
	return out.Resolve(w.Classes), nil
}

// refresh starts watching kinds that have appeared and stops those that are gone.
func (w *Watcher) refresh(ctx context.Context) error {
	served, err := w.served()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		w.running = map[Kind]*running{}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		gvr, ok := served[k]
		if r := w.running[k]; r != nil && (!ok || r.gvr != gvr) {
			r.stop()
			delete(w.running, k)
			w.Log.Info("API is gone", "kind", k, "version", r.gvr.Version)
		}
		if ok && w.running[k] == nil {
			r, err := w.watch(ctx, k, gvr)
			if err != nil {
				return fmt.Errorf("watching %s: %w", k, err)
			}
			w.running[k] = r
			w.Log.Info("watching API", "kind", k, "version", gvr.Version)
		}
	}
	w.asked = true
	return nil
}

// served returns the version that each kind is served at. A version that is listed and does not
// answer is an error: it is not gone.
func (w *Watcher) served() (map[Kind]schema.GroupVersionResource, error) {
	_, lists, err := w.Discovery.ServerGroupsAndResources()
	silent, some := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !some {
		return nil, fmt.Errorf("listing APIs: %w", err)
	}
	all := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("listing APIs: %w", err)
		}
		for i := range list.APIResources {
			all[of.WithResource(list.APIResources[i].Name)] = true
		}
	}
	out := map[Kind]schema.GroupVersionResource{}
	for k, known := range kinds {
		if (k == ProvisioningRequest || k == PodTemplate) && len(w.Classes) == 0 {
			continue
		}
		for _, version := range known.versions {
			gvr := schema.ParseGroupResource(string(k)).WithVersion(version)
			if err := silent[gvr.GroupVersion()]; err != nil {
				return nil, fmt.Errorf("listing resources of %s: %w", gvr.GroupVersion(), err)
			}
			if all[gvr] {
				out[k] = gvr
				break
			}
		}
	}
	return out, nil
}

func (w *Watcher) watch(ctx context.Context, k Kind, gvr schema.GroupVersionResource) (*running, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(w.Client, gvr, "", 0, cache.Indexers{}, nil).Informer()
	err := informer.SetTransform(func(item any) (any, error) {
		if u, ok := item.(*unstructured.Unstructured); ok {
			return Parse(k, u), nil
		}
		return item, nil
	})
	if err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.Log.Warn("watch failed; retrying", "kind", k, "err", err)
	}); err != nil {
		return nil, err
	}
	if !notWatched[k] {
		changed := func(any) { w.Changed() }
		if _, err := informer.AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: matters, Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(before, now any) {
				if !alike(before, now) {
					changed(now)
				}
			},
		}}); err != nil {
			return nil, err
		}
	}
	running := &running{gvr: gvr, informer: informer, since: time.Now()}
	var inner context.Context
	inner, running.stop = context.WithCancel(ctx)
	go informer.RunWithContext(inner)
	return running, nil
}

// notWatched kinds trigger no reconcile: the demand of a Deployment is its HPA's, and clusters have
// many of them.
var notWatched = map[Kind]bool{Deployment: true, StatefulSet: true}

// matters reports whether an object can change a decision. Karpenter makes a NodeClaim for each node, also for those
// without GPUs.
func matters(item any) bool {
	o, ok := item.(*Object)
	return !ok || o.Kind != NodeClaim || o.Upcoming != nil || o.Err != nil
}

// alike reports whether two versions of an object are equal in all fields that are read.
func alike(before, now any) bool {
	a, okA := before.(*Object)
	b, okB := now.(*Object)
	if !okA || !okB {
		return false
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	x.Generation, y.Generation = 0, 0
	readable := (x.Err == nil) == (y.Err == nil)
	x.Err, y.Err = nil, nil
	return readable && equality.Semantic.DeepEqual(x, y)
}

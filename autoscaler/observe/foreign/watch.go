package foreign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// Objects are what there is of each kind, in no order. They are shared and must not
// be written to. A kind that is absent has none.
type Objects map[Kind][]*Object

// Watcher keeps the objects of all kinds that a cluster serves.
type Watcher struct {
	client    dynamic.Interface
	discovery discovery.DiscoveryInterface
	every     time.Duration
	log       *slog.Logger
	changed   func()

	mu      sync.Mutex
	asked   bool // what is served has been learned once
	running map[Kind]*running
}

// patience is how long a kind may take to be listed before the others are used
// without it: whoever may not list it would wait for ever.
const patience = 30 * time.Second

// ErrNotYet says that the cluster's objects are still being listed.
var ErrNotYet = errors.New("other APIs' objects have not been listed yet")

// running is the informer of one kind.
type running struct {
	gvr      schema.GroupVersionResource
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	since    time.Time
}

// WatcherOptions of a Watcher. Every is how often the API is asked what it serves,
// 0 for 30 s. Changed, which may be nil, is called whenever something may have become
// of an object for which a round is worth it: not for a status that nobody reads. It
// must not block.
type WatcherOptions struct {
	Client    dynamic.Interface
	Discovery discovery.DiscoveryInterface
	Every     time.Duration
	Changed   func()
	Log       *slog.Logger
}

// NewWatcher returns a Watcher that has seen nothing yet.
func NewWatcher(o WatcherOptions) *Watcher {
	if o.Every == 0 {
		o.Every = 30 * time.Second
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{client: o.Client, discovery: o.Discovery, every: o.Every, changed: o.Changed, log: o.Log, running: map[Kind]*running{}}
}

// Run watches until ctx ends. It always returns nil: an API that does not answer is
// asked again.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		if err := w.refresh(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("asking which APIs there are failed: what is known stays", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Objects returns what is known now. A kind that has not been listed whole is
// absent, so that nobody takes a part for all. The error is ErrNotYet, for as long as
// that may still be because all of it is new.
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
		for _, item := range r.informer.GetStore().List() {
			if o, ok := item.(*Object); ok {
				out[k] = append(out[k], o)
			}
		}
	}
	return out, nil
}

// refresh starts watching what has appeared and stops what is gone.
func (w *Watcher) refresh(ctx context.Context) error {
	served, err := w.served()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		gvr, ok := served[k]
		if r := w.running[k]; r != nil && (!ok || r.gvr != gvr) {
			r.stop()
			delete(w.running, k)
			w.log.Info("an API has gone", "kind", k, "version", r.gvr.Version)
		}
		if ok && w.running[k] == nil {
			r, err := w.watch(ctx, k, gvr)
			if err != nil {
				return fmt.Errorf("watching %s: %w", k, err)
			}
			w.running[k] = r
			w.log.Info("watching an API", "kind", k, "version", gvr.Version)
		}
	}
	w.asked = true
	return nil
}

// served says at which version each kind is found. A group that is listed and does
// not answer is an error: it has not gone.
func (w *Watcher) served() (map[Kind]schema.GroupVersionResource, error) {
	groups, err := w.discovery.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("listing API groups: %w", err)
	}
	versions := map[string][]string{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions[g.Name] = append(versions[g.Name], v.Version)
		}
	}
	lists := map[schema.GroupVersion]map[string]bool{}
	out := map[Kind]schema.GroupVersionResource{}
	for k, known := range kinds {
		// A group may serve a version without this very resource in it.
		for _, version := range known.versions {
			gv := schema.GroupVersion{Group: known.group, Version: version}
			if !slices.Contains(versions[known.group], version) {
				continue
			}
			if lists[gv] == nil {
				if lists[gv], err = w.resources(gv); err != nil {
					return nil, err
				}
			}
			if lists[gv][known.resource] {
				out[k] = gv.WithResource(known.resource)
				break
			}
		}
	}
	return out, nil
}

func (w *Watcher) resources(gv schema.GroupVersion) (map[string]bool, error) {
	list, err := w.discovery.ServerResourcesForGroupVersion(gv.String())
	if apierrors.IsNotFound(err) { // it went after the groups were listed
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing resources of %s: %w", gv, err)
	}
	out := map[string]bool{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			out[r.Name] = true
		}
	}
	return out, nil
}

func (w *Watcher) watch(ctx context.Context, k Kind, gvr schema.GroupVersionResource) (*running, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(w.client, gvr, "", 0, cache.Indexers{}, nil).Informer()
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
		w.log.Warn("watching failed, trying again", "kind", k, "err", err)
	}); err != nil {
		return nil, err
	}
	if !quiet[k] {
		tell := func(any) { w.changed() }
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(before, now any) {
				if !alike(before, now) {
					tell(now)
				}
			},
		}); err != nil {
			return nil, err
		}
	}
	running := &running{gvr: gvr, informer: informer, since: time.Now()}
	var inner context.Context
	inner, running.stop = context.WithCancel(ctx)
	go informer.RunWithContext(inner)
	return running, nil
}

// quiet kinds say nothing by themselves: how many of a Deployment's pods are wanted
// is asked of its HPA, and the clusters are full of them.
var quiet = map[Kind]bool{Deployment: true, StatefulSet: true}

// alike reports whether nothing that is asked of an object has changed.
func alike(before, now any) bool {
	a, okA := before.(*Object)
	b, okB := now.(*Object)
	if !okA || !okB {
		return false
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	x.Generation, y.Generation = 0, 0
	return (x.Err == nil) == (y.Err == nil) && equality.Semantic.DeepEqual(x.ObjectMeta, y.ObjectMeta) &&
		equality.Semantic.DeepEqual(x.Group, y.Group) && equality.Semantic.DeepEqual(x.Maker, y.Maker) && equality.Semantic.DeepEqual(x.Queue, y.Queue) &&
		equality.Semantic.DeepEqual(x.Flavor, y.Flavor)
}

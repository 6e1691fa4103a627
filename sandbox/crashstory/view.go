package crashstory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// What is counted.
const (
	nodesMade    = "nodes made"
	nodesDeleted = "nodes deleted"
	podsEvicted  = "pods evicted"
)

// view is the cluster as the fakes see it, and counts what is done to it: by
// the objects' changes, not by the requests.
type view struct {
	*node.Cached

	mu sync.Mutex
	// names of objects by UID, so that an object that is seen twice counts once.
	done map[string]map[types.UID]string
	ours map[types.UID]bool // pods that the story itself deleted
}

func newView(ctx context.Context, client kubernetes.Interface) (*view, error) {
	cached, err := node.NewCached(ctx, client)
	if err != nil {
		return nil, err
	}
	v := &view{Cached: cached, ours: map[types.UID]bool{}}
	v.reset()
	core := cached.Informers.Core().V1()
	_, err = core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { v.count(nodesMade, o) },
		DeleteFunc: func(o any) { v.count(nodesDeleted, o) },
	})
	if err != nil {
		return nil, err
	}
	_, err = core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			if o.(*corev1.Pod).DeletionTimestamp != nil {
				v.count(podsEvicted, o)
			}
		},
		DeleteFunc: func(o any) { v.count(podsEvicted, o) },
	})
	return v, err
}

// count an object, of a missed deletion as it was last known.
func (v *view) count(what string, o any) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ours[m.GetUID()] {
		v.done[what][m.GetUID()] = strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/")
	}
}

// own records that the story deletes a pod itself.
func (v *view) own(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ours[uid] = true
}

// reset starts counting.
func (v *view) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done = map[string]map[types.UID]string{nodesMade: {}, nodesDeleted: {}, podsEvicted: {}}
}

// names of what was done since reset, sorted.
func (v *view) names(what string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Values(v.done[what]))
}

// nodeList are the nodes of the story's pools.
func (v *view) nodeList() []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(n *corev1.Node) bool { return n.Labels[v1alpha1.NodePoolLabel] == "" })
}

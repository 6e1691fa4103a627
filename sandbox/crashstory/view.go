package crashstory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// view is the cluster as the fakes see it, and counts what is done to it: by
// the objects' changes, not by the requests.
type view struct {
	*node.Cached

	mu sync.Mutex
	// UIDs, so that an object that is seen twice counts once.
	made, removed, left map[types.UID]string
	ours                map[types.UID]bool // pods that the story itself deleted
	reasons             []string           // of pods that left, with the reason
}

func newView(ctx context.Context, client kubernetes.Interface) (*view, error) {
	cached, err := node.NewCached(ctx, client)
	if err != nil {
		return nil, err
	}
	v := &view{Cached: cached, ours: map[types.UID]bool{}}
	v.reset()
	if _, err := cached.Informers.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			n := o.(*corev1.Node)
			v.count(v.made, n.UID, n.Name)
		},
		DeleteFunc: func(o any) {
			if n, ok := final(o).(*corev1.Node); ok {
				v.count(v.removed, n.UID, n.Name)
			}
		},
	}); err != nil {
		return nil, err
	}
	if _, err := cached.Informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			if p := o.(*corev1.Pod); p.DeletionTimestamp != nil {
				v.leaves(p)
			}
		},
		DeleteFunc: func(o any) {
			if p, ok := final(o).(*corev1.Pod); ok {
				v.leaves(p)
			}
		},
	}); err != nil {
		return nil, err
	}
	return v, nil
}

// final returns the last known object of a deletion.
func final(o any) any {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return d.Obj
	}
	return o
}

func (v *view) count(m map[types.UID]string, uid types.UID, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m[uid] = name
}

func (v *view) leaves(p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.left[p.UID]; known || v.ours[p.UID] {
		return
	}
	v.left[p.UID] = p.Namespace + "/" + p.Name
	why := "for no stated reason"
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			why = c.Reason + ": " + c.Message
		}
	}
	v.reasons = append(v.reasons, fmt.Sprintf("%s %s/%s (%s, %s) left node %q %s", time.Now().Format("15:04:05.000"), p.Namespace, p.Name, p.UID, p.Status.Phase, p.Spec.NodeName, why))
}

// own records that the story deletes a pod itself.
func (v *view) own(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ours[uid] = true
}

// reset starts counting. The maps stay the handlers' own.
func (v *view) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made == nil {
		v.made, v.removed, v.left = map[types.UID]string{}, map[types.UID]string{}, map[types.UID]string{}
	}
	clear(v.made)
	clear(v.removed)
	clear(v.left)
	v.reasons = nil
}

// departures are the pods that left, with the known reasons.
func (v *view) departures() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.reasons)
}

func (v *view) counts() (made, removed, left []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return values(v.made), values(v.removed), values(v.left)
}

// nodeList are the nodes of the story's pools.
func (v *view) nodeList() []*corev1.Node {
	return slices.DeleteFunc(v.Nodes(), func(n *corev1.Node) bool { return n.Labels[v1alpha1.NodePoolLabel] == "" })
}

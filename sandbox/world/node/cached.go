package node

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// byNode is the index of pods by the node they are bound to.
const byNode = "byNode"

// Cached reads the cluster from caches.
type Cached struct {
	Informers informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	pods      cache.Indexer
	configs   corelisters.ConfigMapLister
	deploys   appslisters.DeploymentLister
}

// NewCached starts caches that are updated until ctx ends.
func NewCached(ctx context.Context, client kubernetes.Interface) (*Cached, error) {
	f := informers.NewSharedInformerFactory(client, 0)
	pods := f.Core().V1().Pods().Informer()
	err := pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			return []string{p.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("indexing pods: %w", err)
	}
	c := &Cached{f, f.Core().V1().Nodes().Lister(), pods.GetIndexer(), f.Core().V1().ConfigMaps().Lister(), f.Apps().V1().Deployments().Lister()}
	f.Start(ctx.Done())
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, errors.Join(fmt.Errorf("reading %s", kind), context.Cause(ctx))
		}
	}
	return c, nil
}

// Node returns a node from the cache.
func (c *Cached) Node(name string) (*corev1.Node, bool) {
	n, err := c.nodes.Get(name)
	return n, err == nil
}

// Nodes returns all nodes, unordered.
func (c *Cached) Nodes() []*corev1.Node {
	out, _ := c.nodes.List(labels.Everything()) // a cache returns no error
	return out
}

// PodsOn returns the pods that are bound to a node.
func (c *Cached) PodsOn(node string) []*corev1.Pod {
	objects, _ := c.pods.ByIndex(byNode, node) // the index exists
	return asPods(objects)
}

// Pods returns all pods, unordered.
func (c *Cached) Pods() []*corev1.Pod { return asPods(c.pods.List()) }

func asPods(objects []any) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

// MIGConfig returns the mig-parted file in mig-manager's ConfigMap; nil if there is none.
func (c *Cached) MIGConfig() []byte {
	m, err := c.configs.ConfigMaps(partition.DefaultConfigMap.Namespace).Get(partition.DefaultConfigMap.Name)
	if err != nil {
		return nil
	}
	return []byte(m.Data[partition.ConfigKey])
}

// Wanted returns the spec.replicas of a Deployment; false if the Deployment does not exist.
func (c *Cached) Wanted(namespace, name string) (int, bool) {
	d, err := c.deploys.Deployments(namespace).Get(name)
	if err != nil || d.Spec.Replicas == nil {
		return 0, false
	}
	return int(*d.Spec.Replicas), true
}

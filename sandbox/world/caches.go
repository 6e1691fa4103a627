package world

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"

	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// Caches is the cluster as the fakes see it.
type Caches struct {
	*node.Cached
	deploys appslisters.DeploymentLister
}

// newCaches fills caches that live until ctx ends.
func newCaches(ctx context.Context, client kubernetes.Interface) (*Caches, error) {
	f := informers.NewSharedInformerFactory(client, 0)
	view, err := node.NewCached(f)
	if err != nil {
		return nil, err
	}
	c := &Caches{Cached: view, deploys: f.Apps().V1().Deployments().Lister()}
	f.Start(ctx.Done())
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, errors.Join(fmt.Errorf("reading %s", kind), context.Cause(ctx))
		}
	}
	return c, nil
}

// Wanted is the spec.replicas of a Deployment; false when there is no such
// Deployment.
func (c *Caches) Wanted(namespace, name string) (int, bool) {
	d, err := c.deploys.Deployments(namespace).Get(name)
	if err != nil || d.Spec.Replicas == nil {
		return 0, false
	}
	return int(*d.Spec.Replicas), true
}

package pools

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// sameNode rejects a node that is not of the pool, or was replaced or changed since it was read: the
// decision was made on another state.
func sameNode(ctx context.Context, live client.Reader, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if node.Labels[v1alpha1.NodePoolLabel] != pool.Name {
		return fmt.Errorf("it is not of pool %s", pool.Name)
	}
	var now corev1.Node
	if err := live.Get(ctx, client.ObjectKey{Name: node.Name}, &now); err != nil {
		return fmt.Errorf("getting it: %w", err)
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	switch {
	case now.UID != node.UID:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("a new node has this name, with another UID"))
	case now.Spec.ProviderID != node.Spec.ProviderID:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("its providerID has changed from %q to %q", node.Spec.ProviderID, now.Spec.ProviderID))
	case now.ResourceVersion != node.ResourceVersion:
		return apierrors.NewConflict(nodes, node.Name, fmt.Errorf("it was changed since it was read"))
	}
	return nil
}

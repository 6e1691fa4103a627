package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Replacer is a Provider that can replace a node. The size is never lowered, so the machine's
// controller makes the new node by itself: a removal followed by a scale-up would have to wait for
// the removal, and would be lost with the waiting process.
type Replacer interface {
	// Replace removes this node, for which the provider makes another. errors.ErrUnsupported means
	// that nothing was done.
	Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error
}

// Replace implements Replacer for the pool's provider.
func (p Providers) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	provider, err := p.writer(ctx, pool, "replace node "+node.Name)
	if err != nil {
		return err
	}
	err = errors.ErrUnsupported
	if r, ok := provider.(Replacer); ok {
		err = r.Replace(ctx, pool, node)
	}
	if err != nil {
		return fmt.Errorf("replacing node %s: %w", node.Name, err)
	}
	return nil
}

// Replace implements Replacer: when a Machine or NodeClaim is deleted, its controller makes another
// as long as the size stays. The target's annotation lists the machine first, so that its node is
// not counted while it goes.
func (s *Scale) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	defer s.memo.forget(pool)
	t, kind, machine, err := s.machine(ctx, pool, node)
	switch {
	case err != nil:
		return err
	case machine.GetDeletionTimestamp() != nil:
		return nil // terminating already
	case t.counted(machine) && !kind.passedOver(t, machine):
		return fmt.Errorf("%w: %s is removing it already", ErrBusy, t.name())
	}
	all, err := kind.all(ctx, t)
	if err != nil {
		return err
	}
	before := t.object.DeepCopy()
	t.setRemoving(append(slices.DeleteFunc(t.removing(), gone(all)), string(machine.GetUID())))
	if err := patch(ctx, s.client, before, t.object, "noting what goes on"); err != nil {
		return err
	}
	err = s.client.Delete(ctx, machine, client.Preconditions{UID: ptr.To(machine.GetUID())})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", machine.GetKind(), machine.GetName(), err)
	}
	return nil
}

// Replace implements Replacer: a group whose size stays starts another instance.
func (a *ASG) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, asgTimeout)
	defer cancel()
	defer a.memo.forget(pool)
	return a.terminate(ctx, pool, node, false)
}

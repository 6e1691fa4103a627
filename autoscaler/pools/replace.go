package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Replacer is a Provider that can have a node replaced. What makes the nodes makes
// another for one that goes, so the size is never lowered, and nobody has to ask for
// it again: a removal followed by a growth would have to wait for the removal, and
// would be forgotten with the process that waits.
type Replacer interface {
	// Replace takes this very node away, for which another comes. An error that is
	// errors.ErrUnsupported means that nothing was done, since this provider cannot.
	Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error
}

// Replace implements Replacer for whichever provider pool has.
func (p Providers) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	provider, err := p.For(pool)
	if err != nil {
		return err
	}
	if r, ok := provider.(Replacer); ok {
		return r.Replace(ctx, pool, node)
	}
	return fmt.Errorf("replacing node %s: %w", node.Name, errors.ErrUnsupported)
}

// Replace implements Replacer: the controller of a Machine or NodeClaim that is
// deleted makes another, as long as the size asked for stays. The target says first
// that this one is going, so that its node is not counted while it does.
func (s *Scale) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	defer s.memo.forget(pool)
	if err := s.replace(ctx, pool, node); err != nil {
		return fmt.Errorf("replacing node %s: %w", node.Name, err)
	}
	return nil
}

func (s *Scale) replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	t, kind, machine, err := s.machine(ctx, pool, node)
	switch {
	case err != nil:
		return err
	case machine.GetDeletionTimestamp() != nil:
		return nil // on its way
	case t.counted(machine) && !kind.passedOver(t, machine):
		return fmt.Errorf("%w: %s was asked to take it away", ErrBusy, t.name())
	}
	return s.renew(ctx, t, kind, machine)
}

// renew deletes one machine of a target whose size stays.
func (s *Scale) renew(ctx context.Context, t target, kind machines, machine *unstructured.Unstructured) error {
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
	if err := a.terminate(ctx, pool, node, false); err != nil {
		return fmt.Errorf("replacing node %s: %w", node.Name, err)
	}
	return nil
}

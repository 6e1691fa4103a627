package pools

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// listEvery bounds the age of List's answers; the provider's own writes are applied at once.
const listEvery = 5 * time.Second

// Scale sets the replicas of a resource that makes the nodes.
type Scale struct {
	client client.Client
	live   client.Reader
	memo   *memo
}

// NewScale returns the provider. live must read from the API server: decisions depend on the
// target's current state.
func NewScale(c client.Client, live client.Reader) *Scale {
	return &Scale{client: c, live: live, memo: newMemo(listEvery, time.Now)}
}

// kind returns how the target's nodes are identified, nil if they cannot be.
func (s *Scale) kind(t target) machines {
	gvk := t.object.GroupVersionKind()
	switch {
	case gvk.Group == capiGroup:
		switch gvk.Kind {
		case kindMachineDeployment, "MachineSet", kindMachinePool:
			return clusterAPI{client: s.client, live: s.live}
		}
	case gvk.Group == karpenterGroup && gvk.Kind == "NodePool":
		return karpenter{client: s.client, live: s.live}
	}
	return nil
}

// List implements Provider. A persistent error is of type *Problem.
func (s *Scale) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	return s.memo.get(ctx, pool, func() (Listing, error) {
		t, err := s.read(ctx, pool)
		if err != nil {
			return Listing{}, err
		}
		kind := s.kind(t)
		if kind == nil {
			_, replicas, err := s.scaleOf(ctx, t)
			return Listing{Target: replicas, Unnamed: true}, err
		}
		if err := ours(kind, t); err != nil {
			return Listing{}, err
		}
		size, err := kind.size(t)
		if err != nil {
			return Listing{}, err
		}
		if t.object.GetKind() == kindMachinePool {
			return Listing{Target: size, Unnamed: true}, nil
		}
		going, err := t.going(ctx, kind)
		return Listing{Target: size, Going: going}, err
	})
}

// ours rejects a target that another autoscaler sizes.
func ours(kind machines, t target) error {
	if who := kind.foreign(t); who != "" {
		return &Problem{ReasonForeign, fieldScale + ".name",
			fmt.Sprintf("%s is sized by another: %s", t.name(), who), "two autoscalers on one pool undo each other's work: remove one of them from it"}
	}
	return nil
}

// SetSize implements Provider.
func (s *Scale) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	t, err := s.read(ctx, pool)
	if err != nil {
		s.memo.forget(pool)
		return err
	}
	kind := s.kind(t)
	if kind == nil {
		defer s.memo.forget(pool)
		return s.growScale(ctx, t, size)
	}
	err = s.resize(ctx, kind, t, size)
	now, unread := kind.size(t) // as the API server answered
	if err != nil || unread != nil {
		s.memo.forget(pool)
		return err
	}
	s.memo.resized(pool, now)
	return nil
}

// resize sets t's size, unless it is that already; t is then as the API server returned it.
func (s *Scale) resize(ctx context.Context, kind machines, t target, size int) error {
	if err := ours(kind, t); err != nil {
		return err
	}
	have, err := kind.size(t)
	if err != nil || have >= size {
		return err
	}
	if p, ok := kind.(interface {
		settled(context.Context, target) error
	}); ok {
		if err := p.settled(ctx, t); err != nil {
			return err
		}
	}
	before := t.object.DeepCopy()
	if err := kind.resize(t, size); err != nil {
		return err
	}
	return patch(ctx, s.client, before, t.object, "resizing")
}

// Delete implements Provider.
func (s *Scale) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	defer s.memo.forget(pool)
	t, kind, machine, err := s.machine(ctx, pool, node)
	if err != nil {
		return err
	}
	return kind.remove(ctx, t, machine)
}

// machine finds the machine of a node that is unchanged since the decision, and its target;
// ErrUnnamed without a machine.
func (s *Scale) machine(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) (target, machines, *unstructured.Unstructured, error) {
	if err := sameNode(ctx, s.live, pool, node); err != nil {
		return target{}, nil, nil, err
	}
	t, err := s.read(ctx, pool)
	if err != nil {
		return target{}, nil, nil, err
	}
	kind := s.kind(t)
	if kind == nil || t.object.GetKind() == kindMachinePool {
		return target{}, nil, nil, fmt.Errorf("%w: %s has replicas but no way to choose the node to remove; set spec.scaleDown.disabled", ErrUnnamed, t.name())
	}
	if err := ours(kind, t); err != nil {
		return target{}, nil, nil, err
	}
	machine, err := t.find(ctx, kind, node)
	if err == nil && machine == nil {
		err = fmt.Errorf("%w: %s has no machine for it", ErrUnnamed, t.name())
	}
	return t, kind, machine, err
}

// scaleOf reads the scale subresource of a target of any kind, and its replicas.
func (s *Scale) scaleOf(ctx context.Context, t target) (scale *unstructured.Unstructured, replicas int, err error) {
	scale = &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	err = s.client.SubResource("scale").Get(ctx, t.object, scale)
	switch {
	case apierrors.IsNotFound(err):
		return nil, 0, &Problem{ReasonTarget, fieldScale + ".kind", t.name() + " has no scale subresource", "name a resource that has one"}
	case apierrors.IsForbidden(err):
		return nil, 0, &Problem{ReasonTarget, fieldScale + ".kind",
			fmt.Sprintf("the scale of %s may not be read: %v", t.name(), err), "allow gpuscale get and update on it"}
	case err != nil:
		return nil, 0, fmt.Errorf("reading the scale of %s: %w", t.name(), err)
	}
	n, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas") // absent means 0
	if err != nil {
		return nil, 0, fmt.Errorf("reading the scale of %s: %w", t.name(), err)
	}
	return scale, int(n), nil
}

// growScale is SetSize for a target of any kind. The write has the resource version of the read, so
// a change in between is a conflict.
func (s *Scale) growScale(ctx context.Context, t target, size int) error {
	scale, have, err := s.scaleOf(ctx, t)
	if err != nil || have >= size {
		return err
	}
	if err := unstructured.SetNestedField(scale.Object, int64(size), "spec", "replicas"); err != nil {
		return fmt.Errorf("scaling %s: %w", t.name(), err)
	}
	if err := s.client.SubResource("scale").Update(ctx, t.object, client.WithSubResourceBody(scale)); err != nil {
		return fmt.Errorf("scaling %s: %w", t.name(), err)
	}
	return nil
}

// patch writes the difference, if the object is unchanged since it was read.
func patch(ctx context.Context, c client.Client, before, after *unstructured.Unstructured, doing string) error {
	err := c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", doing, after.GetKind(), after.GetName(), err)
	}
	return nil
}

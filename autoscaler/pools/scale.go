package pools

import (
	"context"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
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
	switch kind := t.object.GroupVersionKind().GroupKind(); {
	case kind.Group == capiGroup && machineLabels[kind.Kind] != "":
		return clusterAPI{client: s.client, live: s.live}
	case kind.Group == karpenterGroup && kind.Kind == "NodePool":
		return karpenter{client: s.client, live: s.live}
	}
	return nil
}

// open reads a pool's target and rejects one that another autoscaler sizes, or that is paused. kind is nil for a target of any other kind.
func (s *Scale) open(ctx context.Context, pool *v1alpha1.GPUNodePool) (t target, kind machines, err error) {
	if t, err = s.read(ctx, pool); err != nil {
		return t, nil, err
	}
	if kind = s.kind(t); kind == nil {
		return t, nil, nil
	}
	if who := kind.foreign(t); who != "" {
		return t, nil, &Problem{ReasonForeign, fieldScale + ".name",
			fmt.Sprintf("another autoscaler sizes %s: %s", t.name(), who), "two autoscalers on one pool undo each other's work: remove one of them from it"}
	}
	if t.paused() { // its size would change, and nothing else
		return t, nil, &Problem{ReasonTarget, fieldScale + ".name", t.name() + " is paused, or its Cluster", "unpause it; until then other pools serve the pods"}
	}
	return t, kind, nil
}

// openNamed is open for a target whose nodes are removed by name; ErrUnnamed for others.
func (s *Scale) openNamed(ctx context.Context, pool *v1alpha1.GPUNodePool) (target, machines, error) {
	t, kind, err := s.open(ctx, pool)
	if err == nil && (kind == nil || t.object.GetKind() == kindMachinePool) {
		err = fmt.Errorf("%w: %s has replicas but no way to choose the node to remove; set spec.scaleDown.disabled", ErrUnnamed, t.name())
	}
	return t, kind, err
}

// List implements Provider. A persistent error is of type *Problem.
func (s *Scale) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	return s.memo.get(ctx, pool, func() (out Listing, err error) {
		t, kind, err := s.open(ctx, pool)
		if err != nil {
			return Listing{}, err
		}
		out.Unnamed = kind == nil || t.object.GetKind() == kindMachinePool
		if kind == nil {
			_, out.Target, err = s.scaleOf(ctx, t)
			return out, err
		}
		removed, size, err := t.removed(ctx, kind)
		if err != nil {
			return out, err
		}
		out.Target = size
		for i := range removed {
			if t.leaves(kind, &removed[i]) {
				_, id := kind.node(&removed[i])
				out.Going = append(out.Going, LastPart(id))
			}
		}
		if k, ok := kind.(karpenter); ok {
			err = k.describe(t, &out)
		}
		return out, err
	})
}

// SetSize implements Provider.
func (s *Scale) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, from, to int) error {
	defer s.memo.forget(pool)
	t, kind, err := s.open(ctx, pool)
	if err != nil {
		return err
	}
	if kind == nil {
		return s.growScale(ctx, t, from, to)
	}
	_, size, err := t.removed(ctx, kind)
	if err != nil {
		return err
	}
	if due, err := grows(size, from, to); !due {
		return err
	}
	return kind.resize(ctx, t, to)
}

// Delete implements Provider.
func (s *Scale) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error {
	defer s.memo.forget(pool)
	if err := sameNode(ctx, s.live, pool, node); err != nil {
		return err
	}
	t, kind, err := s.openNamed(ctx, pool)
	if err != nil {
		return err
	}
	all, err := kind.all(ctx, t)
	if err != nil {
		return err
	}
	machine, err := t.find(kind, all, node)
	if err != nil {
		return err
	}
	size, err := kind.size(t, all)
	switch {
	case err != nil:
		return err
	case replace && size <= int(pool.Spec.Max):
		return kind.replace(ctx, t, all, machine)
	}
	return kind.remove(ctx, t, all, machine, int(pool.Spec.Min))
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
			fmt.Sprintf("gpuscale is not allowed to read the scale of %s: %v", t.name(), err), "allow gpuscale get and update on it"}
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
func (s *Scale) growScale(ctx context.Context, t target, from, to int) error {
	scale, size, err := s.scaleOf(ctx, t)
	if err != nil {
		return err
	}
	if due, err := grows(size, from, to); !due {
		return err
	}
	set(scale, int64(to), "spec", "replicas")
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

// remove deletes a Machine or NodeClaim that is not being deleted.
func remove(ctx context.Context, c client.Client, machine *unstructured.Unstructured) error {
	if machine.GetDeletionTimestamp() != nil {
		return nil
	}
	err := c.Delete(ctx, machine, client.Preconditions{UID: ptr.To(machine.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", machine.GetKind(), machine.GetName(), err)
	}
	machine.SetDeletionTimestamp(ptr.To(metav1.Now())) // as the next list has it
	return nil
}

// Withdraw implements Provider. It removes Machines and NodeClaims without a node by name. If there are none, the
// controller has made fewer machines than requested, and the size becomes their number: with as many replicas as
// machines, the controller removes none.
func (s *Scale) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool, from int) error {
	defer s.memo.forget(pool)
	t, kind, err := s.openNamed(ctx, pool)
	if err != nil {
		return err
	}
	all, err := kind.all(ctx, t)
	if err != nil {
		return err
	}
	size, err := kind.size(t, all)
	if err != nil {
		return err
	}
	if size != from {
		return stale(size, from)
	}
	var nodes corev1.NodeList
	if err := s.live.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: pool.Name}); err != nil {
		return fmt.Errorf("listing nodes of pool %s: %w", pool.Name, err)
	}
	made, without := 0, []*unstructured.Unstructured{}
	for i := range all {
		name, id := kind.node(&all[i])
		// A node that has joined may have pods before its machine names it.
		joined := name != "" || slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return id != "" && n.Spec.ProviderID == id })
		switch {
		case all[i].GetDeletionTimestamp() != nil, t.leaves(kind, &all[i]):
		case joined:
			made++
		default:
			without = append(without, &all[i])
		}
	}
	without = without[:min(len(without), max(0, size-made))] // a machine that replaces another is beyond the size
	for _, machine := range without {
		if err := kind.remove(ctx, t, all, machine, 0); err != nil {
			return err
		}
	}
	if len(without) > 0 || size <= made {
		return nil
	}
	return kind.resize(ctx, t, made)
}

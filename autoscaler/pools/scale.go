package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	defer s.memo.forget(pool)
	t, err := s.read(ctx, pool)
	if err != nil {
		return err
	}
	if kind := s.kind(t); kind != nil {
		return s.resize(ctx, kind, t, size)
	}
	return s.growScale(ctx, t, size)
}

// resize raises t's size, unless it is that already.
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

// Withdrawer is a Provider that can take back a request that it has not met.
type Withdrawer interface {
	// Withdraw lowers the pool's size by the machines that have no node. It removes no node.
	Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error
}

// Withdraw implements Withdrawer for the pool's provider. The History counts a failure, also where the
// request cannot be taken back.
func (p Providers) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	if p.History != nil {
		p.History.Withdrawn(pool)
	}
	provider, err := p.writer(ctx, pool, "withdraw the request")
	if err != nil {
		return err
	}
	w, ok := provider.(Withdrawer)
	if !ok {
		return fmt.Errorf("%w: the provider of pool %s cannot take back a request", ErrUnnamed, pool.Name)
	}
	if err := w.Withdraw(ctx, pool); err != nil {
		return fmt.Errorf("withdrawing the request of pool %s: %w", pool.Name, err)
	}
	return nil
}

// Withdraw implements Withdrawer: Machines and NodeClaims that have no node are removed by name.
func (s *Scale) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	defer s.memo.forget(pool)
	t, err := s.read(ctx, pool)
	if err != nil {
		return err
	}
	kind := s.kind(t)
	if kind == nil || t.object.GetKind() == kindMachinePool {
		return fmt.Errorf("%w: %s has replicas but no machines to choose from", ErrUnnamed, t.name())
	}
	if err := ours(kind, t); err != nil {
		return err
	}
	all, err := kind.all(ctx, t)
	if err != nil {
		return err
	}
	removed := false
	for i := range all {
		if name, _ := kind.node(&all[i]); name != "" {
			continue
		}
		if err := kind.remove(ctx, t, &all[i]); err != nil {
			return err
		}
		removed = true
	}
	if removed {
		return nil
	}
	return s.unmade(ctx, t, kind, all)
}

// unmade lowers a target whose controller has made fewer machines than requested, to those it has
// made: with as many machines as replicas, none is chosen for removal.
func (s *Scale) unmade(ctx context.Context, t target, kind machines, all []unstructured.Unstructured) error {
	size, err := kind.size(t)
	if err != nil {
		return err
	}
	made := 0
	for i := range all {
		if all[i].GetDeletionTimestamp() == nil {
			made++
		}
	}
	if size <= made {
		return nil
	}
	before := t.object.DeepCopy()
	if err := kind.resize(t, made); err != nil {
		return err
	}
	return patch(ctx, s.client, before, t.object, "lowering")
}

// Withdraw implements Withdrawer: the group's size becomes the number of its instances. AWS has no
// conditional write: if it starts an instance after the reading, the group has one too many, and
// AWS terminates one of its choice. Hence each instance must be protected from scale-in.
func (a *ASG) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	ctx, cancel := context.WithTimeout(ctx, asgTimeout)
	defer cancel()
	defer a.memo.forget(pool)
	c, group, err := a.describe(ctx, pool)
	if err != nil {
		return err
	}
	instances, exposed := int32(0), int32(0)
	for i := range group.Instances {
		switch {
		case leavingState(group.Instances[i].LifecycleState):
		case !aws.ToBool(group.Instances[i].ProtectedFromScaleIn):
			exposed++
			fallthrough
		default:
			instances++
		}
	}
	size := max(instances, aws.ToInt32(group.MinSize))
	if aws.ToInt32(group.DesiredCapacity) <= size {
		return nil
	}
	if exposed > 0 {
		return &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("%d of %d instances of Auto Scaling group %s are not protected from scale-in: a smaller size could terminate one that works", exposed, instances, aws.ToString(group.AutoScalingGroupName)),
			"protect the group's instances, also new ones; gpuscale still removes nodes by their IDs"}
	}
	_, err = c.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: group.AutoScalingGroupName, DesiredCapacity: aws.Int32(size), HonorCooldown: aws.Bool(false),
	})
	if err != nil {
		return fmt.Errorf("setting the size of Auto Scaling group %s: %w", aws.ToString(group.AutoScalingGroupName), err)
	}
	return nil
}

package pools

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Withdrawer is a Provider that can take back a request that it has not met.
type Withdrawer interface {
	// Withdraw lowers the pool's size by the machines that have no node. It removes no node.
	Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error
}

// Withdraw implements Withdrawer for the pool's provider. The History counts a failure.
func (p Providers) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
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
	if p.History != nil {
		p.History.Withdrawn(pool)
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

// Withdraw implements Withdrawer: the group's size becomes the number of its instances, which
// terminates none of them.
func (a *ASG) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	ctx, cancel := context.WithTimeout(ctx, asgTimeout)
	defer cancel()
	defer a.memo.forget(pool)
	c, group, err := a.describe(ctx, pool)
	if err != nil {
		return err
	}
	instances := int32(0)
	for i := range group.Instances {
		if !leavingState(group.Instances[i].LifecycleState) {
			instances++
		}
	}
	size := max(instances, aws.ToInt32(group.MinSize))
	if aws.ToInt32(group.DesiredCapacity) <= size {
		return nil
	}
	_, err = c.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: group.AutoScalingGroupName, DesiredCapacity: aws.Int32(size), HonorCooldown: aws.Bool(false),
	})
	if err != nil {
		return fmt.Errorf("setting the size of Auto Scaling group %s: %w", aws.ToString(group.AutoScalingGroupName), err)
	}
	return nil
}

package act

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// Fence returns a client that checks e with the API server before each write, and
// refuses the write with ErrDeposed once e has ended. Reads pass. Without an epoch
// it returns c.
func Fence(c client.Client, e *Epoch) client.Client {
	if e == nil {
		return c
	}
	return fenced{c, e}
}

type fenced struct {
	client.Client
	epoch *Epoch
}

// may checks the epoch before the write of an object.
func (f fenced) may(ctx context.Context, verb string, o client.Object) error {
	return f.epoch.may(ctx, fmt.Sprintf("%s %T %s", verb, o, client.ObjectKeyFromObject(o)))
}

func (e *Epoch) may(ctx context.Context, what string) error {
	if err := e.Check(ctx); err != nil {
		return e.refused(err, what)
	}
	return nil
}

func (f fenced) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := f.may(ctx, "create", o); err != nil {
		return err
	}
	return f.Client.Create(ctx, o, opts...)
}

func (f fenced) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if err := f.may(ctx, "update", o); err != nil {
		return err
	}
	return f.Client.Update(ctx, o, opts...)
}

func (f fenced) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := f.may(ctx, "patch", o); err != nil {
		return err
	}
	return f.Client.Patch(ctx, o, p, opts...)
}

func (f fenced) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := f.may(ctx, "delete", o); err != nil {
		return err
	}
	return f.Client.Delete(ctx, o, opts...)
}

func (f fenced) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	if err := f.may(ctx, "delete all of", o); err != nil {
		return err
	}
	return f.Client.DeleteAllOf(ctx, o, opts...)
}

func (f fenced) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := f.epoch.may(ctx, fmt.Sprintf("apply %T", o)); err != nil {
		return err
	}
	return f.Client.Apply(ctx, o, opts...)
}

func (f fenced) Status() client.SubResourceWriter { return f.SubResource("status") }

func (f fenced) SubResource(name string) client.SubResourceClient {
	return fencedSub{f.Client.SubResource(name), f, name}
}

type fencedSub struct {
	client.SubResourceClient
	fence fenced
	name  string
}

func (f fencedSub) Create(ctx context.Context, o, sub client.Object, opts ...client.SubResourceCreateOption) error {
	if err := f.fence.may(ctx, "create "+f.name+" of", o); err != nil {
		return err
	}
	return f.SubResourceClient.Create(ctx, o, sub, opts...)
}

func (f fencedSub) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := f.fence.may(ctx, "update "+f.name+" of", o); err != nil {
		return err
	}
	return f.SubResourceClient.Update(ctx, o, opts...)
}

func (f fencedSub) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := f.fence.may(ctx, "patch "+f.name+" of", o); err != nil {
		return err
	}
	return f.SubResourceClient.Patch(ctx, o, p, opts...)
}

func (f fencedSub) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if err := f.fence.epoch.may(ctx, fmt.Sprintf("apply %s of %T", f.name, o)); err != nil {
		return err
	}
	return f.SubResourceClient.Apply(ctx, o, opts...)
}

// FencePools is Fence for providers, some of which write to cloud APIs. Without an
// epoch it returns p.
func FencePools(p pools.Provider, e *Epoch) pools.Provider {
	if e == nil {
		return p
	}
	return fencedPools{p, e}
}

type fencedPools struct {
	pools.Provider
	epoch *Epoch
}

func (f fencedPools) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	if err := f.epoch.may(ctx, fmt.Sprintf("set size of pool %s to %d", pool.Name, size)); err != nil {
		return err
	}
	return f.Provider.SetSize(ctx, pool, size)
}

// Replace implements pools.Replacer if the provider does.
func (f fencedPools) Replace(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	p, ok := f.Provider.(pools.Replacer)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := f.epoch.may(ctx, fmt.Sprintf("replace node %s of pool %s", node.Name, pool.Name)); err != nil {
		return err
	}
	return p.Replace(ctx, pool, node)
}

func (f fencedPools) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) error {
	if err := f.epoch.may(ctx, fmt.Sprintf("delete %d nodes of pool %s", len(nodes), pool.Name)); err != nil {
		return err
	}
	return f.Provider.Delete(ctx, pool, nodes)
}

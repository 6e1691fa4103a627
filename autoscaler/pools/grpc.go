package pools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/plan"
)

const (
	fieldGRPC = "spec.provider.externalGRPC"
	// grpcEvery bounds the age of a listing, as cluster-autoscaler's loop does.
	grpcEvery = 10 * time.Second
	// grpcTimeout bounds one call of a Provider method, grpcListTimeout a listing, for which a
	// reconcile waits.
	grpcTimeout, grpcListTimeout = 10 * time.Second, 3 * time.Second
)

// GRPC sizes the node groups of providers that speak cluster-autoscaler's external gRPC protocol.
type GRPC struct {
	live    client.Reader
	clients map[string]*externalgrpc.Client // by name
	now     func() time.Time
	memo    *memo

	mu        sync.Mutex
	refreshed map[string]time.Time // by name
}

// NewGRPC returns the provider over clients by name. live must read from the API server.
func NewGRPC(live client.Reader, clients map[string]*externalgrpc.Client, now func() time.Time) *GRPC {
	return &GRPC{live: live, clients: clients, now: now, memo: newMemo(grpcEvery, now), refreshed: map[string]time.Time{}}
}

// client returns the connection to a pool's provider.
func (g *GRPC) client(pool *v1alpha1.GPUNodePool) (*externalgrpc.Client, string, error) {
	ref := pool.Spec.Provider.ExternalGRPC
	c, ok := g.clients[ref.Name]
	if !ok {
		return nil, "", &Problem{ReasonNoTarget, fieldGRPC + ".name",
			fmt.Sprintf("the autoscaler's configuration has no externalGRPC provider %q", ref.Name), "add it there with its address, or correct the name"}
	}
	return c, ref.NodeGroup, nil
}

// List implements Provider.
func (g *GRPC) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	return g.memo.get(ctx, pool, func() (Listing, error) {
		ctx, cancel := context.WithTimeout(ctx, grpcListTimeout)
		defer cancel()
		c, _, err := g.group(ctx, pool)
		if err != nil {
			return Listing{}, err
		}
		id := pool.Spec.Provider.ExternalGRPC.NodeGroup
		target, err := c.TargetSize(ctx, id)
		if err != nil {
			return Listing{}, err
		}
		instances, err := c.Instances(ctx, id)
		if err != nil {
			return Listing{}, err
		}
		out := Listing{Target: target}
		for _, i := range instances {
			if i.Is(externalgrpc.Deleting) {
				out.Going = append(out.Going, LastPart(i.ID))
			}
		}
		out.nodes, err = templateFacts(ctx, c, id)
		return out, err
	})
}

// group refreshes the provider and returns the pool's node group.
func (g *GRPC) group(ctx context.Context, pool *v1alpha1.GPUNodePool) (*externalgrpc.Client, *externalgrpc.Group, error) {
	c, id, err := g.client(pool)
	if err != nil {
		return nil, nil, err
	}
	if err := g.refresh(ctx, c, pool.Spec.Provider.ExternalGRPC.Name); err != nil {
		return nil, nil, err
	}
	groups, err := c.Groups(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(groups, func(n *externalgrpc.Group) bool { return n.ID == id })
	if at < 0 {
		return nil, nil, &Problem{ReasonNoTarget, fieldGRPC + ".nodeGroup",
			fmt.Sprintf("the provider %s has no node group %q", pool.Spec.Provider.ExternalGRPC.Name, id), "configure it there, or correct the ID"}
	}
	return c, groups[at], nil
}

// refresh has the provider read its cloud's state, once for all of its pools.
func (g *GRPC) refresh(ctx context.Context, c *externalgrpc.Client, name string) error {
	g.mu.Lock()
	last, now := g.refreshed[name], g.now()
	due := now.Sub(last) >= grpcEvery || now.Before(last)
	if due {
		g.refreshed[name] = now
	}
	g.mu.Unlock()
	if !due {
		return nil
	}
	if err := c.Refresh(ctx); err != nil {
		g.mu.Lock()
		delete(g.refreshed, name)
		g.mu.Unlock()
		return err
	}
	return nil
}

// templateFacts returns the labels, taints and other resources that the provider's template of a node group has. A
// provider without templates says nothing.
func templateFacts(ctx context.Context, c *externalgrpc.Client, group string) (nodeFacts, error) {
	text, err := c.Template(ctx, group)
	if status.Code(err) == codes.Unimplemented {
		return nodeFacts{}, nil
	}
	if err != nil {
		return nodeFacts{}, err
	}
	var n corev1.Node
	if err := n.Unmarshal(text); err != nil {
		return nodeFacts{}, &Problem{ReasonTarget, fieldGRPC + ".nodeGroup",
			fmt.Sprintf("the provider's template of node group %q is no Node: %v", group, err), "update the provider"}
	}
	return factsOf(&n), nil
}

// factsOf reads a template's Node. The pool's own template has CPU, memory and GPUs.
func factsOf(n *corev1.Node) nodeFacts {
	out := nodeFacts{labels: n.Labels}
	for _, t := range n.Spec.Taints {
		out.taints = append(out.taints, plan.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for name, q := range n.Status.Allocatable {
		if strings.Contains(string(name), "/") && q.Sign() > 0 {
			out.resource(string(name), q)
		}
	}
	slices.SortFunc(out.others, func(a, b plan.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SetSize implements Provider. The protocol has differences only, so the size is read right before.
func (g *GRPC) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	ctx, cancel := context.WithTimeout(ctx, grpcTimeout)
	defer cancel()
	defer g.memo.forget(pool)
	c, group, err := g.group(ctx, pool)
	if err != nil {
		return err
	}
	have, err := c.TargetSize(ctx, group.ID)
	if err != nil || have >= size {
		return err
	}
	if most := int(group.MaxSize); size > most {
		return &Problem{ReasonTarget, "spec.max",
			fmt.Sprintf("%d nodes are requested, the maximum of node group %s is %d", size, group.ID, most), "raise it at the provider, or lower spec.max"}
	}
	return c.IncreaseSize(ctx, group.ID, size-have)
}

// Delete implements Provider. A node that is being deleted already is not counted a second time.
func (g *GRPC) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, grpcTimeout)
	defer cancel()
	defer g.memo.forget(pool)
	if err := sameNode(ctx, g.live, pool, node); err != nil {
		return err
	}
	c, group, err := g.group(ctx, pool)
	if err != nil {
		return err
	}
	instances, err := c.Instances(ctx, group.ID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(instances, func(i *externalgrpc.Instance) bool { return i.ID == node.Spec.ProviderID })
	switch {
	case node.Spec.ProviderID == "" || at < 0:
		return fmt.Errorf("%w: node group %s has no instance %q", ErrUnnamed, group.ID, node.Spec.ProviderID)
	case instances[at].Is(externalgrpc.Deleting):
		return nil
	}
	have, err := c.TargetSize(ctx, group.ID)
	if err != nil {
		return err
	}
	if least := int(group.MinSize); have <= least {
		return &Problem{ReasonTarget, "spec.min",
			fmt.Sprintf("the minimum of node group %s is %d, and so is its size", group.ID, least), "lower it at the provider, or raise spec.min to it"}
	}
	return c.DeleteNodes(ctx, group.ID, &externalgrpc.Node{
		ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations,
	})
}

// Withdraw implements Withdrawer: instances that could not be created are deleted by their IDs, and
// the size is lowered to the instances there are.
func (g *GRPC) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool) error {
	ctx, cancel := context.WithTimeout(ctx, grpcTimeout)
	defer cancel()
	defer g.memo.forget(pool)
	c, group, err := g.group(ctx, pool)
	if err != nil {
		return err
	}
	instances, err := c.Instances(ctx, group.ID)
	if err != nil {
		return err
	}
	var failed []*externalgrpc.Node
	there := 0
	for _, i := range instances {
		switch {
		case i.Is(externalgrpc.Deleting):
		case i.Is(externalgrpc.Creating) && i.Status.Error != nil && i.Status.Error.Code != "":
			// As cluster-autoscaler names an instance that never had a node.
			failed = append(failed, &externalgrpc.Node{ProviderID: i.ID, Name: i.ID})
		default:
			there++
		}
	}
	if len(failed) > 0 {
		if err := c.DeleteNodes(ctx, group.ID, failed...); err != nil {
			return err
		}
	}
	target, err := c.TargetSize(ctx, group.ID)
	if size := max(there, int(group.MinSize)); err == nil && target > size {
		err = c.DecreaseTargetSize(ctx, group.ID, target-size)
	}
	return err
}

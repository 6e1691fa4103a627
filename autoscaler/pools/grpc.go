package pools

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
)

const fieldGRPC = "spec.provider.externalGRPC"

// external reads the node groups of providers that speak cluster-autoscaler's external gRPC protocol.
type external struct {
	clients map[string]*externalgrpc.Client // by name
	now     func() time.Time

	mu        sync.Mutex
	refreshed map[string]time.Time // by name
}

// NewGRPC returns the provider over clients by name. live must read from the API server.
func NewGRPC(live client.Reader, clients map[string]*externalgrpc.Client, now func() time.Time) *Groups {
	e := &external{clients: clients, now: now, refreshed: map[string]time.Time{}}
	return &Groups{read: e.read, live: live, memo: newMemo(groupEvery, now), listing: externalgrpc.MaxTimeout, known: map[string]map[string]known{}}
}

// grpcGroup is one node group.
type grpcGroup struct {
	*externalgrpc.Client
	id     string
	target int
	failed []*externalgrpc.Node // instances that could not be created
}

// read implements Groups.read.
func (e *external) read(ctx context.Context, pool *v1alpha1.GPUNodePool) (*group, error) {
	ref := pool.Spec.Provider.ExternalGRPC
	c, ok := e.clients[ref.Name]
	if !ok {
		return nil, &Problem{ReasonNoTarget, fieldGRPC + ".name",
			fmt.Sprintf("the autoscaler's configuration has no externalGRPC provider %q", ref.Name), "add it there with its address, or correct the name"}
	}
	found, err := e.find(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	target, err := c.TargetSize(ctx, ref.NodeGroup)
	if err != nil {
		return nil, err
	}
	instances, err := c.Instances(ctx, ref.NodeGroup)
	if err != nil {
		return nil, err
	}
	cloud := &grpcGroup{Client: c, id: ref.NodeGroup, target: target}
	out := &group{name: "node group " + ref.NodeGroup, target: target, least: int(found.MinSize), most: int(found.MaxSize), cloud: cloud}
	for _, i := range instances {
		m := machine{id: i.ID, going: i.Is(externalgrpc.Deleting), failed: i.Failure()}
		if m.failed != "" {
			cloud.failed = append(cloud.failed, nodeOf(i.ID, "create-error"))
		}
		out.machines = append(out.machines, m)
	}
	return out, nil
}

// find returns a node group of a provider. If the group is missing, the provider is asked to read its cloud again: it
// may have restarted since the last refresh.
func (e *external) find(ctx context.Context, c *externalgrpc.Client, ref *v1alpha1.ExternalGRPCProvider) (*externalgrpc.Group, error) {
	for _, anyway := range []bool{false, true} {
		if err := e.refresh(ctx, c, ref.Name, anyway); err != nil {
			return nil, err
		}
		groups, err := c.Groups(ctx)
		if err != nil {
			return nil, err
		}
		if at := slices.IndexFunc(groups, func(n *externalgrpc.Group) bool { return n.ID == ref.NodeGroup }); at >= 0 {
			return groups[at], nil
		}
	}
	return nil, &Problem{ReasonNoTarget, fieldGRPC + ".nodeGroup",
		fmt.Sprintf("the provider %s has no node group %q", ref.Name, ref.NodeGroup), "configure it there, or correct the ID"}
}

// complete implements groupAPI: a provider's template has labels, taints and other resources. A provider without
// templates says nothing.
func (g *grpcGroup) complete(ctx context.Context, l *Listing, _ int) error {
	text, err := g.Template(ctx, g.id)
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	if err != nil {
		return err
	}
	l.described = &corev1.Node{}
	if err := l.described.Unmarshal(text); err != nil {
		return &Problem{ReasonTarget, fieldGRPC + ".nodeGroup",
			fmt.Sprintf("the provider's template of node group %q is not a Node: %v", g.id, err), "update the provider"}
	}
	return nil
}

// raise implements groupAPI. The protocol has differences only.
func (g *grpcGroup) raise(ctx context.Context, size int) error {
	return g.IncreaseSize(ctx, g.id, size-g.target)
}

// nodeOf is what cluster-autoscaler has in place of a node for an instance that never had one.
func nodeOf(id, why string) *externalgrpc.Node {
	return &externalgrpc.Node{ProviderID: id, Name: id, Annotations: map[string]string{"k8s.io/cluster-autoscaler/fake-node-reason": why}}
}

// withdraw implements groupAPI: instances that could not be created, or never joined, are deleted by their IDs.
func (g *grpcGroup) withdraw(ctx context.Context, size int, absent []string) error {
	target, gone := g.target, g.failed
	for _, id := range absent {
		gone = append(gone, nodeOf(id, "unregistered"))
	}
	if len(gone) > 0 {
		err := g.DeleteNodes(ctx, g.id, gone...)
		if err == nil {
			target, err = g.TargetSize(ctx, g.id)
		}
		if err != nil {
			return err
		}
	}
	if target <= size {
		return nil
	}
	return g.DecreaseTargetSize(ctx, g.id, target-size)
}

// remove implements groupAPI. In the protocol a deletion lowers the size: if the second call is not made or fails, the
// pool is one node smaller, and grows again for its minimum or for the next pod.
func (g *grpcGroup) remove(ctx context.Context, node *corev1.Node, replace bool) error {
	err := g.DeleteNodes(ctx, g.id, &externalgrpc.Node{
		ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations,
	})
	if err != nil || !replace {
		return err
	}
	if err := g.IncreaseSize(ctx, g.id, 1); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// refresh has the provider read its cloud's state: at once with anyway, else at most once per groupEvery for all of its
// pools.
func (e *external) refresh(ctx context.Context, c *externalgrpc.Client, name string, anyway bool) error {
	e.mu.Lock()
	last, now := e.refreshed[name], e.now()
	due := anyway || now.Sub(last) >= groupEvery
	if due {
		e.refreshed[name] = now
	}
	e.mu.Unlock()
	if !due {
		return nil
	}
	if err := c.Refresh(ctx); err != nil {
		e.mu.Lock()
		delete(e.refreshed, name)
		e.mu.Unlock()
		return err
	}
	return nil
}

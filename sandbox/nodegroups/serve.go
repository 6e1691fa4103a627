package nodegroups

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	ca "github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
)

// mostNodes is the maximum size of a group.
const mostNodes = 100_000

// Serve offers a node group for each pool of the provider Name, by cluster-autoscaler's external gRPC
// protocol (cloudprovider/externalgrpc/protos of kubernetes/autoscaler at 1dbeacf, 2026-11-29). It returns the
// server's address, and stop, which ends the server.
func (m *Maker) Serve() (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening for the autoscaler: %w", err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: ca.Service, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		method("Refresh", func(context.Context, *ca.Empty) (*ca.Empty, error) { return &ca.Empty{}, nil }),
		method("NodeGroups", m.groups),
		method("NodeGroupTargetSize", m.targetSize),
		method("NodeGroupNodes", m.instances),
		method("NodeGroupIncreaseSize", m.increase),
		method("NodeGroupDeleteNodes", m.remove),
	}}, struct{}{})
	go func() { _ = server.Serve(listener) }() // it ends with stop
	return listener.Addr().String(), server.Stop, nil
}

// method describes one call of the protocol.
func method[In, Out any](name string, do func(context.Context, *In) (*Out, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(In)
		if err := decode(in); err != nil {
			return nil, err
		}
		return do(ctx, in)
	}}
}

// pools returns the pools of this provider, one for each group.
func (m *Maker) pools(ctx context.Context) ([]v1alpha1.GPUNodePool, error) {
	var list v1alpha1.GPUNodePoolList
	if err := m.live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing pools: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p v1alpha1.GPUNodePool) bool {
		return p.Spec.Provider.ExternalGRPC == nil || p.Spec.Provider.ExternalGRPC.Name != Name
	}), nil
}

// group returns the pool of a group and its nodes.
func (m *Maker) group(ctx context.Context, id string) (*v1alpha1.GPUNodePool, []corev1.Node, error) {
	all, err := m.pools(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if p := &all[i]; p.Spec.Provider.ExternalGRPC.NodeGroup == id {
			nodes, err := m.nodes(ctx, p)
			return p, nodes, err
		}
	}
	return nil, nil, status.Errorf(codes.NotFound, "no node group %q", id)
}

func (m *Maker) groups(ctx context.Context, _ *ca.Empty) (*ca.Groups, error) {
	all, err := m.pools(ctx)
	out := &ca.Groups{}
	for _, p := range all {
		out.Groups = append(out.Groups, &ca.Group{ID: p.Spec.Provider.ExternalGRPC.NodeGroup, MaxSize: mostNodes})
	}
	return out, err
}

func (m *Maker) targetSize(ctx context.Context, in *ca.Of) (*ca.Target, error) {
	_, nodes, err := m.group(ctx, in.ID)
	return &ca.Target{Size: int32(len(nodes))}, err
}

func (m *Maker) instances(ctx context.Context, in *ca.Of) (*ca.Instances, error) {
	_, nodes, err := m.group(ctx, in.ID)
	out := &ca.Instances{}
	for i := range nodes {
		out.Instances = append(out.Instances, &ca.Instance{ID: nodes[i].Spec.ProviderID, Status: &ca.Status{State: ca.Running}})
	}
	return out, err
}

// patiently retries calls that the API server did not answer, as a cloud would do: clients see no failure.
func patiently(do func() error) error {
	return retry.OnError(wait.Backoff{Steps: 5, Duration: 20 * time.Millisecond, Factor: 2}, func(err error) bool {
		return !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)
	}, do)
}

func (m *Maker) increase(ctx context.Context, in *ca.Resize) (*ca.Empty, error) {
	pool, nodes, err := m.group(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Delta <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "increase by %d", in.Delta)
	}
	return &ca.Empty{}, patiently(func() error { return m.SetSize(ctx, pool, 0, len(nodes)+int(in.Delta)) })
}

func (m *Maker) remove(ctx context.Context, in *ca.DeleteNodes) (*ca.Empty, error) {
	_, nodes, err := m.group(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	for _, n := range in.Nodes {
		at := slices.IndexFunc(nodes, func(have corev1.Node) bool { return have.Spec.ProviderID == n.ProviderID })
		if at < 0 || n.ProviderID == "" {
			return nil, status.Errorf(codes.FailedPrecondition, "node group %s has no instance %q", in.ID, n.ProviderID)
		}
		err := patiently(func() error {
			return client.IgnoreNotFound(m.client.Delete(ctx, &nodes[at], client.Preconditions{UID: ptr.To(nodes[at].UID)}))
		})
		if err != nil {
			return nil, fmt.Errorf("deleting node %s: %w", nodes[at].Name, err)
		}
	}
	return &ca.Empty{}, nil
}

package pods

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// kubelet is the connection to the PodResources socket.
type kubelet struct {
	socket string
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
	// connections counts those made: one more is a kubelet that may be new.
	connections atomic.Uint64
}

func dial(socket string) (*kubelet, error) {
	k := &kubelet{socket: socket}
	// gRPC's own pause grows to two minutes, which a kubelet restart need not cost.
	reconnect := backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStatsHandler((*counting)(k)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	k.conn, k.client = conn, podresources.NewPodResourcesListerClient(conn)
	return k, nil
}

// counting is gRPC's view of a kubelet: it counts new connections.
type counting kubelet

func (c *counting) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.connections.Add(1)
	}
}
func (c *counting) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *counting) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *counting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// list requests all pods.
func (k *kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	answer, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing pod resources on %s: %w", k.socket, err)
	}
	return answer.GetPodResources(), nil
}

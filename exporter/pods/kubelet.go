package pods

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
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
	path := strings.TrimPrefix(socket, "unix://")
	// gRPC's own pause grows to two minutes, which a kubelet restart need not cost.
	reconnect := backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	conn, err := grpc.NewClient("unix:"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err == nil {
				k.connections.Add(1)
			}
			return conn, err
		}))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	k.conn, k.client = conn, podresources.NewPodResourcesListerClient(conn)
	return k, nil
}

// list requests all pods.
func (k *kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	answer, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing pod resources on %s: %w", k.socket, err)
	}
	return answer.GetPodResources(), nil
}

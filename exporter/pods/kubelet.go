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
)

// dial returns a connection to the kubelet's PodResources socket. made counts the connections
// opened: after one more, the kubelet may be a new one.
func dial(socket string, made *atomic.Uint64) (*grpc.ClientConn, error) {
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
				made.Add(1)
			}
			return conn, err
		}))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	return conn, nil
}

package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet is the PodResources socket of the node's kubelet.
type Kubelet struct {
	client podresources.PodResourcesListerClient
}

// Bounds of an answer.
const (
	kubeletTimeout = 10 * time.Second
	kubeletBytes   = 16 << 20
)

// DialKubelet returns the kubelet behind a socket; it is connected to when asked.
func DialKubelet(socket string) (*Kubelet, error) {
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(kubeletBytes)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	return &Kubelet{podresources.NewPodResourcesListerClient(conn)}, nil
}

// Held are the NVIDIA devices that have been given to pods. A pod whose process
// has not started yet is among them, which no driver knows of.
func (k *Kubelet) Held(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	answer, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet who holds what: %w", err)
	}
	held := map[string]string{}
	for _, pod := range answer.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				if !strings.HasPrefix(d.GetResourceName(), "nvidia.com/") {
					continue
				}
				for _, id := range d.GetDeviceIds() {
					id, _, _ = strings.Cut(id, "::") // replicas of one device
					held[id] = pod.GetNamespace() + "/" + pod.GetName()
				}
			}
		}
	}
	return held, nil
}

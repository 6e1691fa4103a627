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
	self   string
}

// Bounds of an answer.
const (
	kubeletTimeout = 10 * time.Second
	kubeletBytes   = 16 << 20
)

// claimDriver is NVIDIA's driver for claims. Which instance a claim has is not said.
const claimDriver = "gpu.nvidia.com"

// DialKubelet returns the kubelet behind a socket; it is connected to when asked.
// self is the agent's own pod, "namespace/name". A kubelet that does not list it has
// just been started and knows of no pod yet, whatever they hold. Empty: not looked for.
func DialKubelet(socket, self string) (*Kubelet, error) {
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(kubeletBytes)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	return &Kubelet{podresources.NewPodResourcesListerClient(conn), self}, nil
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
	held, found := map[string]string{}, k.self == ""
	for _, pod := range answer.GetPodResources() {
		name := pod.GetNamespace() + "/" + pod.GetName()
		found = found || name == k.self
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				addHeld(held, d, name)
			}
			for _, claim := range c.GetDynamicResources() {
				for _, r := range claim.GetClaimResources() {
					if r.GetDriverName() == claimDriver {
						return nil, fmt.Errorf("%s has a device of %s by claim %s/%s: the agent cannot tell which, and leaves such nodes alone",
							name, claimDriver, claim.GetClaimNamespace(), claim.GetClaimName())
					}
				}
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("asking the kubelet who holds what: it does not list %s, the agent's own pod, so it has not found its pods yet", k.self)
	}
	return held, nil
}

// addHeld adds NVIDIA devices, under whatever resource name the device plugin was
// told to offer them.
func addHeld(held map[string]string, d *podresources.ContainerDevices, pod string) {
	for _, id := range d.GetDeviceIds() {
		id, _, _ = strings.Cut(id, "::") // replicas of one device
		if strings.HasPrefix(d.GetResourceName(), "nvidia.com/") || strings.HasPrefix(id, "MIG-") || strings.HasPrefix(id, "GPU-") {
			held[id] = pod
		}
	}
}

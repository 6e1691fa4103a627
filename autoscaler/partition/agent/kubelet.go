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

// claimDriver is NVIDIA's DRA driver. PodResources does not report the instance of a claim.
const claimDriver = "gpu.nvidia.com"

// DialKubelet returns the kubelet behind a socket; it connects on the first call. self is the
// agent's own pod, "namespace/name": a kubelet that does not list it has just been started and does
// not know its pods yet. An empty self disables that check.
func DialKubelet(socket, self string) (*Kubelet, error) {
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(kubeletBytes)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	return &Kubelet{podresources.NewPodResourcesListerClient(conn), self}, nil
}

// Allocations returns the pod that each NVIDIA device is allocated to, including pods whose process
// has not started yet; the driver does not know those.
func (k *Kubelet) Allocations(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	answer, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("reading allocations from the kubelet: %w", err)
	}
	allocated, found := map[string]string{}, k.self == ""
	for _, pod := range answer.GetPodResources() {
		name := pod.GetNamespace() + "/" + pod.GetName()
		found = found || name == k.self
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				addAllocation(allocated, d, name)
			}
			for _, claim := range c.GetDynamicResources() {
				for _, r := range claim.GetClaimResources() {
					if r.GetDriverName() == claimDriver {
						return nil, fmt.Errorf("%s has a device of %s by claim %s/%s: it is unknown which, so the agent changes nothing on such nodes",
							name, claimDriver, claim.GetClaimNamespace(), claim.GetClaimName())
					}
				}
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("reading allocations from the kubelet: it does not list %s, the agent's own pod, so its list is not complete yet", k.self)
	}
	return allocated, nil
}

// addAllocation adds NVIDIA devices, under any resource name that the device plugin is configured
// to advertise.
func addAllocation(allocated map[string]string, d *podresources.ContainerDevices, pod string) {
	for _, id := range d.GetDeviceIds() {
		id, _, _ = strings.Cut(id, "::") // replicas of one device
		if strings.HasPrefix(d.GetResourceName(), "nvidia.com/") || strings.HasPrefix(id, "MIG-") || strings.HasPrefix(id, "GPU-") {
			allocated[id] = pod
		}
	}
}

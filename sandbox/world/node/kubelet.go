package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet serves a machine's PodResources API. lock protects the machine: every other user of the machine
// must hold it too.
type Kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	lock    sync.Locker
	machine *Machine
	server  *grpc.Server
}

// Listen serves on a unix socket until Stop. An old socket file is replaced.
func Listen(socket string, m *Machine, lock sync.Locker) (*Kubelet, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("node %s: removing the old PodResources socket: %w", m.Name(), err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("node %s: listening for PodResources: %w", m.Name(), err)
	}
	k := &Kubelet{machine: m, lock: lock, server: grpc.NewServer()}
	podresources.RegisterPodResourcesListerServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }() // ends with Stop
	return k, nil
}

// Stop ends the server and closes its connections.
func (k *Kubelet) Stop() { k.server.Stop() }

// List implements the call of the PodResources API that our programs use: it returns all pods with a device.
// The real kubelet lists all active pods (pkg/kubelet/apis/podresources of Kubernetes 1.37.1, 2026-11-28), so
// its answer is empty only until it knows its pods. Here one pod without a device stands for the others.
func (k *Kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	other := &podresources.PodResources{Namespace: "kube-system", Name: "kube-proxy-" + k.machine.Name(), Containers: []*podresources.ContainerResources{{Name: "kube-proxy"}}}
	return &podresources.ListPodResourcesResponse{PodResources: append(k.pods(), other)}, nil
}

// pods groups the holdings, which are sorted by pod and container.
func (k *Kubelet) pods() []*podresources.PodResources {
	k.lock.Lock()
	holdings := k.machine.Holdings()
	k.lock.Unlock()
	var out []*podresources.PodResources
	for _, h := range holdings {
		var pod *podresources.PodResources
		if n := len(out); n > 0 && out[n-1].Namespace == h.Namespace && out[n-1].Name == h.Pod {
			pod = out[n-1]
		} else {
			pod = &podresources.PodResources{Namespace: h.Namespace, Name: h.Pod}
			out = append(out, pod)
		}
		var c *podresources.ContainerResources
		if n := len(pod.Containers); n > 0 && pod.Containers[n-1].Name == h.Container {
			c = pod.Containers[n-1]
		} else {
			c = &podresources.ContainerResources{Name: h.Container}
			pod.Containers = append(pod.Containers, c)
		}
		i, there := slices.BinarySearchFunc(c.Devices, h.Resource, func(d *podresources.ContainerDevices, name string) int { return cmp.Compare(d.ResourceName, name) })
		if !there {
			c.Devices = slices.Insert(c.Devices, i, &podresources.ContainerDevices{ResourceName: h.Resource})
		}
		c.Devices[i].DeviceIds = append(c.Devices[i].DeviceIds, h.ID)
	}
	return out
}

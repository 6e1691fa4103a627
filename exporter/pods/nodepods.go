package pods

import (
	"context"
	"strings"
)

// Pod is one pod of this node, from the API server.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	Containers           []Container // init containers last
	// Over is a pod that has ended: it may still be in the kubelet's answer,
	// and has no device.
	Over bool
}

// Container of a Pod, in the order of the pod's spec.
type Container struct {
	Name string
	ID   string // as the container runtime has it, without "containerd://"; empty before it runs
	// Resources are the requested names: "aliyun.com/gpu-mem".
	Resources []string
}

// podList is the part of a v1 PodList that is read.
type podList struct {
	Items []struct {
		Metadata struct {
			Name, Namespace, UID string
			Labels, Annotations  map[string]string
		}
		Spec struct {
			Containers, InitContainers []struct {
				Name      string
				Resources struct{ Limits, Requests map[string]any }
			}
		}
		Status struct {
			Phase                                    string
			ContainerStatuses, InitContainerStatuses []struct{ Name, ContainerID string }
		}
	}
}

// listPods reads the pods of one node.
func (a *API) listPods(ctx context.Context, node string) ([]Pod, error) {
	var list podList
	if err := a.Get(ctx, "/api/v1/pods"+ofNode(node), "", &list); err != nil {
		return nil, err
	}
	return list.pods(), nil
}

func (l *podList) pods() []Pod {
	pods := make([]Pod, 0, len(l.Items))
	for i := range l.Items {
		item := &l.Items[i]
		pod := Pod{
			Namespace: item.Metadata.Namespace, Name: item.Metadata.Name, UID: item.Metadata.UID,
			Labels: item.Metadata.Labels, Annotations: item.Metadata.Annotations,
			Over: item.Status.Phase == "Succeeded" || item.Status.Phase == "Failed",
		}
		ids := map[string]string{}
		for _, status := range append(item.Status.ContainerStatuses, item.Status.InitContainerStatuses...) {
			_, ids[status.Name], _ = strings.Cut(status.ContainerID, "://")
		}
		for _, c := range append(item.Spec.Containers, item.Spec.InitContainers...) {
			container := Container{Name: c.Name, ID: ids[c.Name]}
			for name := range c.Resources.Limits { // extended resources have equal limits and requests
				container.Resources = append(container.Resources, name)
			}
			pod.Containers = append(pod.Containers, container)
		}
		pods = append(pods, pod)
	}
	return pods
}

// cgroupUID is the UID that the kubelet names the pod's cgroup by: of a static
// pod it is the hash of its manifest.
func (p *Pod) cgroupUID() string {
	if hash := p.Annotations["kubernetes.io/config.hash"]; hash != "" {
		return hash
	}
	return p.UID
}

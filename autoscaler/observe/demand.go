package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// demandOfPod is what a pod wants: of its containers at once, of its overhead, of
// its resource claims for as long as it lives, and of KAI by its annotations.
func (c *Claims) demandOfPod(p *corev1.Pod) (wanted, error) {
	if standsIn(p) {
		return wanted{}, nil
	}
	all, err := c.ofPod(p)
	if err != nil {
		return wanted{}, err
	}
	containers, err := c.ofContainers(p)
	if err != nil {
		return wanted{}, err
	}
	overhead, err := demand.FromResources(kube.Extended(p.Spec.Overhead))
	if err != nil {
		return wanted{}, fmt.Errorf("overhead: %w", err)
	}
	parts := demand.Demand{}
	if s := p.Spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName {
		if parts, err = demand.FromKAI(p.Annotations); err != nil {
			return wanted{}, err
		}
	}
	if all.Demand, err = demand.Sum(all.Demand, containers, overhead, parts); err != nil {
		return wanted{}, err
	}
	return all, nil
}

// KAI's own pods, by namespace and label: one holds a card on behalf of the pods
// that want parts of it, the other asks for a card so that other autoscalers see
// them. What they stand in for is read from those pods themselves.
const (
	kaiLabel                = "app"
	kaiReservationNamespace = "kai-resource-reservation"
	kaiReservationApp       = "kai-resource-reservation"
	kaiScalingNamespace     = "kai-scale-adjust"
	kaiScalingApp           = "scaling-pod"
)

func standsIn(p *corev1.Pod) bool {
	switch p.Namespace {
	case kaiReservationNamespace:
		return p.Labels[kaiLabel] == kaiReservationApp
	case kaiScalingNamespace:
		return p.Labels[kaiLabel] == kaiScalingApp
	}
	return false
}

// ofContainers is what a pod's containers want at once, put together as
// k8s.io/component-helpers does for other resources: the containers and the
// sidecars together, or what an init container needs beside the sidecars that
// started before it, whichever is more. Containers are read one by one, since
// dialects that mean a part of each of several cards cannot be told from a sum.
func (c *Claims) ofContainers(p *corev1.Pod) (demand.Demand, error) {
	var running, sidecars, starting demand.Demand
	var err error
	for i := range p.Spec.InitContainers {
		container := &p.Spec.InitContainers[i]
		wants, readErr := c.ofContainer(container)
		if readErr != nil {
			return demand.Demand{}, readErr
		}
		beside, sumErr := demand.Sum(sidecars, wants)
		if sumErr != nil {
			return demand.Demand{}, sumErr
		}
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = beside
		}
		if starting, err = demand.Max(starting, beside); err != nil {
			return demand.Demand{}, err
		}
	}
	for i := range p.Spec.Containers {
		wants, readErr := c.ofContainer(&p.Spec.Containers[i])
		if readErr != nil {
			return demand.Demand{}, readErr
		}
		if running, err = demand.Sum(running, wants); err != nil {
			return demand.Demand{}, err
		}
	}
	if running, err = demand.Sum(running, sidecars); err != nil {
		return demand.Demand{}, err
	}
	return demand.Max(running, starting)
}

func (c *Claims) ofContainer(container *corev1.Container) (demand.Demand, error) {
	list := kube.Extended(container.Resources.Requests)
	devices, err := c.extendedOf(list)
	var served, plugged demand.Demand
	if err == nil {
		served, err = demand.FromDevices(devices)
	}
	if err == nil {
		plugged, err = demand.FromResources(list)
	}
	if err == nil {
		plugged, err = demand.Sum(plugged, served)
	}
	if err != nil {
		return demand.Demand{}, fmt.Errorf("container %s: %w", container.Name, err)
	}
	return plugged, nil
}

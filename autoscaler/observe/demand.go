package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// demandOfPod is what a pod wants at once, put together from its containers as
// k8s.io/component-helpers does for other resources: the containers and the
// sidecars together, or what an init container needs beside the sidecars that
// started before it, whichever is more. Containers are read one by one, since
// dialects that mean a part of each of several cards cannot be told from a sum.
func demandOfPod(p *corev1.Pod) (demand.Demand, error) {
	var running, sidecars, starting demand.Demand
	var err error
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		wants, readErr := demandOfContainer(c)
		if readErr != nil {
			return demand.Demand{}, readErr
		}
		beside, sumErr := demand.Sum(sidecars, wants)
		if sumErr != nil {
			return demand.Demand{}, sumErr
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = beside
		}
		if starting, err = demand.Max(starting, beside); err != nil {
			return demand.Demand{}, err
		}
	}
	for i := range p.Spec.Containers {
		wants, readErr := demandOfContainer(&p.Spec.Containers[i])
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

func demandOfContainer(c *corev1.Container) (demand.Demand, error) {
	d, err := demand.FromResources(kube.Extended(c.Resources.Requests))
	if err != nil {
		return demand.Demand{}, fmt.Errorf("container %s: %w", c.Name, err)
	}
	return d, nil
}

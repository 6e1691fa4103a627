package observe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// elasticClaim begins annotations of pods whose value is an ElasticGPUClaim (elastic-gpu at 94fc37e). No
// released scheduler reads them: elastic-gpu-scheduler at 09b010d reads containers' resources.
const elasticClaim = "egpuc.elasticgpu.io/"

// demandOfPod returns a pod's demand: of its containers at any one time, its overhead, its resource
// claims, and KAI's annotations.
func (c *Claims) demandOfPod(p *corev1.Pod) (requested, error) {
	if standsIn(p) {
		return requested{}, nil
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(key, elasticClaim) {
			return requested{}, fmt.Errorf("annotation %s: ElasticGPUClaim %s is not served: request elasticgpu.io/gpu-core and elasticgpu.io/gpu-memory", key, p.Annotations[key])
		}
	}
	all, err := c.ofPod(p)
	if err != nil {
		return requested{}, err
	}
	containers, err := c.ofContainers(p)
	if err != nil {
		return requested{}, err
	}
	if n, err := strconv.Atoi(p.Labels[gpushareCount]); err == nil && n > 1 {
		containers = containers.Over(n)
	}
	overhead, err := demand.FromResources(kube.Extended(p.Spec.Overhead))
	if err != nil {
		return requested{}, fmt.Errorf("overhead: %w", err)
	}
	parts := demand.Demand{}
	if s := p.Spec.SchedulerName; s != "" && s != corev1.DefaultSchedulerName {
		if parts, err = demand.FromKAI(p.Annotations); err != nil {
			return requested{}, err
		}
	}
	if all.Demand, err = demand.Sum(all.Demand, containers, overhead, parts); err != nil {
		return requested{}, err
	}
	return all, nil
}

// KAI's own pods, by namespace and label. One reserves a GPU for the pods that request parts of it;
// the other requests a GPU so that other autoscalers see the demand. Both are skipped: the demand
// is read from the user's pods.
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

// ofContainers returns the demand of a pod's containers at any one time, computed as
// k8s.io/component-helpers does for other resources: the larger of containers plus sidecars, and
// each init container plus the sidecars started before it. Containers are read one by one, since in
// dialects with parts of several GPUs a sum is ambiguous.
func (c *Claims) ofContainers(p *corev1.Pod) (demand.Demand, error) {
	var running, sidecars, starting demand.Demand
	var err error
	for i := range p.Spec.InitContainers {
		container := &p.Spec.InitContainers[i]
		requests, readErr := c.ofContainer(container)
		if readErr != nil {
			return demand.Demand{}, readErr
		}
		beside, sumErr := demand.Sum(sidecars, requests)
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
		requests, readErr := c.ofContainer(&p.Spec.Containers[i])
		if readErr != nil {
			return demand.Demand{}, readErr
		}
		if running, err = demand.Sum(running, requests); err != nil {
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

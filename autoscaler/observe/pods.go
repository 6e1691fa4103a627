package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// ConvertPod returns the planner's view of a pod. Demand that no dialect can read is zero, and
// Unreadable has the reason. Evictable does not consider budgets.
func (c *Claims) ConvertPod(p *corev1.Pod) plan.Pod {
	// As the scheduler counts: init containers, sidecars, overhead, pod-level resources, the larger value during an
	// in-place resize, and the node's own resources that claims take.
	requests := resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, UseDRANodeAllocatableResourceClaimStatus: true,
	})
	out := plan.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Owner:        kube.Owner(p),
		Node:         p.Spec.NodeName,
		Created:      p.CreationTimestamp.Time,
		CPUMilli:     bounded(*requests.Cpu()).MilliValue(),
		MemoryMi:     (bounded(*requests.Memory()).Value() + 1<<20 - 1) >> 20,
		NodeSelector: p.Spec.NodeSelector,
		Affinity:     affinity(p),
		LocalStorage: v1alpha1.HasLocalStorage(p),
		DaemonSet:    kube.IsDaemon(p),
		Others:       c.others(requests),
		HostPorts:    hostPorts(&p.Spec),
	}
	if !out.DaemonSet {
		out.Pinned = v1alpha1.Pinned(p)
		out.Evictable = out.Pinned == ""
	}
	if p.Spec.Priority != nil {
		out.Priority = *p.Spec.Priority
	}
	if d, devices, err := c.demandOfPod(p); err != nil {
		out.Unreadable = err.Error()
	} else {
		out.Demand, out.Devices = d, devices
	}
	for _, t := range p.Spec.Tolerations {
		out.Tolerations = append(out.Tolerations, plan.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect),
		})
	}
	if out.Node == "" {
		out.PendingSince = out.Created
		scheduled(p, &out)
	}
	return out
}

// mostOfAnything bounds the amounts that are read: no node has as much, and it fits an int64 in thousandths too.
const mostOfAnything = 1 << 50

// bounded returns a quantity, at most mostOfAnything and at least its negative. A pod that requests more fits nowhere;
// its amount must not overflow into one that fits.
func bounded(q apiresource.Quantity) *apiresource.Quantity {
	switch v := q.AsApproximateFloat64(); {
	case v > mostOfAnything:
		return apiresource.NewQuantity(mostOfAnything, q.Format)
	case v < -mostOfAnything:
		return apiresource.NewQuantity(-mostOfAnything, q.Format)
	}
	return &q
}

// scheduled reads the PodScheduled condition. A gated pod is not unschedulable.
func scheduled(p *corev1.Pod, out *plan.Pod) {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		out.Unschedulable = c.Reason == corev1.PodReasonUnschedulable
		if !c.LastTransitionTime.IsZero() {
			out.PendingSince = c.LastTransitionTime.Time
		}
	}
}

// affinity returns the required node affinity, nil where every node matches.
func affinity(p *corev1.Pod) []plan.NodeTerm {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return nodeTerms(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
}

// nodeTerms converts the terms of a node selector. If no term can match, it returns a single term
// that matches nothing, since an empty list may match everything.
func nodeTerms(selector []corev1.NodeSelectorTerm) []plan.NodeTerm {
	var terms []plan.NodeTerm
	for _, t := range selector {
		var term plan.NodeTerm
		for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) { // metadata.name is the only field selector
			term = append(term, plan.NodeRequirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
		if len(term) > 0 {
			terms = append(terms, term)
		}
	}
	if len(terms) == 0 {
		terms = []plan.NodeTerm{{{Key: "metadata.name", Operator: string(corev1.NodeSelectorOpIn)}}}
	}
	return terms
}

// onProducts requires of a node that it has GPUs of each of these products.
// The driver uses NVML's names; GFD's label has dashes for blanks, and a pool's template may have
// our own name.
func onProducts(products []string) (out [][]plan.NodeTerm) {
	for _, product := range products {
		label := productLabel(product)
		out = append(out, requiring(partition.ProductLabel, corev1.NodeSelectorOpIn, label, label+"-SHARED", gpu.ProductName(product)))
	}
	return out
}

func requiring(key string, operator corev1.NodeSelectorOperator, values ...string) []plan.NodeTerm {
	return []plan.NodeTerm{{{Key: key, Operator: string(operator), Values: values}}}
}

// productLabel is the value of GFD's label for NVML's name of a product.
func productLabel(product string) string { return strings.Join(strings.Fields(product), "-") }

// elasticClaim begins annotations of pods whose value is an ElasticGPUClaim (elastic-gpu at 94fc37e). No
// released scheduler reads them: elastic-gpu-scheduler at 09b010d reads containers' resources.
const elasticClaim = "egpuc.elasticgpu.io/"

// demandOfPod returns a pod's demand: of its containers at any one time, its overhead, its resource
// claims, and KAI's annotations. devices is what they require of a node.
func (c *Claims) demandOfPod(p *corev1.Pod) (sum demand.Demand, devices [][]plan.NodeTerm, err error) {
	if kube.StandsIn(p) {
		return demand.Demand{}, nil, nil
	}
	claimed, products, err := c.ofPod(p)
	containers, containersErr := c.ofContainers(p)
	if n, err := strconv.Atoi(p.Labels[gpushareCount]); err == nil && n > 1 {
		containers = containers.Over(n)
	}
	overhead, overheadErr := demand.FromResources(kube.Extended(p.Spec.Overhead))
	if overheadErr != nil {
		overheadErr = fmt.Errorf("overhead: %w", overheadErr)
	}
	if err = cmp.Or(err, containersErr, overheadErr); err == nil {
		sum, err = demand.Sum(claimed, containers, overhead)
	}
	noted, notedErr := c.ofAnnotations(p)
	if notedErr == nil {
		noted, notedErr = demand.Sum(sum, noted)
	}
	// Annotations may change while a pod runs, its devices do not. So annotations cannot hide devices from a quota.
	if err == nil && (notedErr == nil || p.Spec.NodeName == "" || sum.Zero()) {
		sum, err = noted, notedErr
	}
	required, requiredErr := c.required(p)
	return sum, slices.Concat(onProducts(products), c.servedBy(p, !claimed.Zero()), required), cmp.Or(err, requiredErr)
}

// ofAnnotations returns what a pod requests by annotations. Of bound pods only KAI's have devices by annotations; the
// annotations of others are ignored.
func (c *Claims) ofAnnotations(p *corev1.Pod) (demand.Demand, error) {
	if p.Spec.NodeName != "" && !c.boundByKAI(p) {
		return demand.Demand{}, nil
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(key, elasticClaim) {
			return demand.Demand{}, fmt.Errorf("annotation %s: ElasticGPUClaim %s is not served: request elasticgpu.io/gpu-core and elasticgpu.io/gpu-memory", key, p.Annotations[key])
		}
	}
	if s := p.Spec.SchedulerName; s == "" || s == corev1.DefaultSchedulerName {
		return demand.Demand{}, nil
	}
	return demand.FromKAI(p.Annotations)
}

// boundByKAI reports whether KAI has bound the pod to shared GPUs: KAI's reservation pod is on the node, or KAI's
// binder has written the condition PodBound, which users cannot write. Either may be missing: the reservation pod for a
// while (0.17.0: the binder's cache lags, and it goes on with one that it has just deleted), the condition where its
// writing failed. KAI's scheduler counts the pod by its label alone.
func (c *Claims) boundByKAI(p *corev1.Pod) bool {
	stated := slices.ContainsFunc(p.Status.Conditions, func(of corev1.PodCondition) bool {
		return of.Type == "PodBound" && of.Status == corev1.ConditionTrue
	})
	return slices.ContainsFunc(demand.KAIGroups(p.Labels), func(group string) bool { return stated || c.kai[p.Spec.NodeName+"/"+group] })
}

// ofContainers returns the demand of a pod's containers at any one time, computed as
// k8s.io/component-helpers does for other resources: the larger of containers plus sidecars, and
// each init container plus the sidecars started before it. Containers are read one by one, since in
// dialects with parts of several GPUs a sum is ambiguous.
func (c *Claims) ofContainers(p *corev1.Pod) (demand.Demand, error) {
	var running, starting demand.Demand
	first := len(p.Spec.InitContainers) // of the containers that are no init containers
	for i, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		requests, err := c.ofContainer(&container)
		if err != nil {
			return demand.Demand{}, err
		}
		beside, err := demand.Sum(running, requests)
		if err == nil && i < first {
			starting, err = demand.Max(starting, beside)
		}
		if err != nil {
			return demand.Demand{}, err
		}
		if i >= first || isSidecar(&container) {
			running = beside
		}
	}
	return demand.Max(running, starting)
}

// isSidecar reports whether an init container goes on running beside the containers.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (c *Claims) ofContainer(container *corev1.Container) (demand.Demand, error) {
	list := kube.Extended(container.Resources.Requests)
	devices, err := c.extendedOf(list)
	served, servedErr := demand.FromDevices(devices)
	plugged, pluggedErr := demand.FromResources(list)
	if err = cmp.Or(err, servedErr, pluggedErr); err == nil {
		plugged, err = demand.Sum(plugged, served)
	}
	if err != nil {
		return demand.Demand{}, fmt.Errorf("container %s: %w", container.Name, err)
	}
	return plugged, nil
}

// withDefaults returns the spec of a pod as the API server would create it in a namespace with
// these LimitRanges, as far as requests and limits go. It serves pods that exist only as a
// template; existing pods have passed admission. The order is the API server's: missing requests
// are the limits, then come the LimitRanges' defaults for containers, then pod-level requests (1.37,
// PodLevelResourcesFixDefaulting). The given spec is not written to; of several LimitRanges the first by name wins.
func withDefaults(spec *corev1.PodSpec, ranges []corev1.LimitRange) corev1.PodSpec {
	p := corev1.Pod{Spec: *spec.DeepCopy()}
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			fill(&r.Requests, r.Limits)
			for j := range ranges {
				containerDefaults(r, &ranges[j])
			}
			fill(&r.Requests, r.Limits) // again, as when the API server reads it back
		}
	}
	podLevelDefaults(&p)
	return p.Spec
}

// containerDefaults fills in the defaults of a LimitRange, the last item first. A default request
// that follows from a default limit was filled in when the LimitRange was created.
func containerDefaults(r *corev1.ResourceRequirements, of *corev1.LimitRange) {
	for _, item := range slices.Backward(of.Spec.Limits) {
		if item.Type == corev1.LimitTypeContainer {
			fill(&r.Limits, item.Default)
			fill(&r.Requests, item.DefaultRequest)
		}
	}
}

// podLevelDefaults derives the requests of a pod that has pod-level limits: the sum of its
// containers' requests, else the limits.
func podLevelDefaults(p *corev1.Pod) {
	if p.Spec.Resources == nil || len(p.Spec.Resources.Limits) == 0 {
		return
	}
	own := p.Spec.Resources
	for name, q := range resource.AggregateContainerRequests(p, resource.PodResourcesOptions{}) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			fill(&own.Requests, corev1.ResourceList{name: q})
		}
	}
	for name, q := range own.Limits {
		if resource.IsSupportedPodLevelResource(name) {
			fill(&own.Requests, corev1.ResourceList{name: q})
		}
	}
}

// fill adds entries that are missing in list.
func fill(list *corev1.ResourceList, others corev1.ResourceList) {
	if len(others) > 0 {
		all := others.DeepCopy()
		maps.Copy(all, *list)
		*list = all
	}
}

package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// ConvertPod is Claims.ConvertPod without claims.
func ConvertPod(p *corev1.Pod) plan.Pod { return (*Claims)(nil).ConvertPod(p) }

// ConvertPod returns the planner's view of a pod. Demand that no dialect can read is zero, and
// Unreadable has the reason. Evictable does not consider budgets.
func (c *Claims) ConvertPod(p *corev1.Pod) plan.Pod {
	// As the scheduler counts: init containers, sidecars, overhead, pod-level resources, and the
	// larger value during an in-place resize.
	requests := resource.PodRequests(p, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	out := plan.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Owner:        owner(p),
		Node:         p.Spec.NodeName,
		Created:      p.CreationTimestamp.Time,
		CPUMilli:     requests.Cpu().MilliValue(),
		MemoryMi:     (requests.Memory().Value() + 1<<20 - 1) >> 20,
		NodeSelector: p.Spec.NodeSelector,
		Affinity:     affinity(p),
		Evictable:    evictable(p),
		LocalStorage: v1alpha1.HasLocalStorage(p),
		DaemonSet:    kube.IsDaemon(p),
		Others:       c.others(requests),
		HostPorts:    hostPorts(&p.Spec),
	}
	if p.Spec.Priority != nil {
		out.Priority = *p.Spec.Priority
	}
	if requested, err := c.demandOfPod(p); err != nil {
		out.Unreadable = err.Error()
	} else {
		out.Demand = requested.Demand
		out.Affinity = onProducts(out.Affinity, requested.products)
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

// owner returns the controller for display. A ReplicaSet of a Deployment is named after it and the
// pod's template hash.
func owner(p *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return ""
	}
	hash := p.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && ref.Kind == "ReplicaSet" && hash != "" {
		return "Deployment/" + name
	}
	return ref.Kind + "/" + ref.Name
}

func evictable(p *corev1.Pod) bool {
	return v1alpha1.SafeToEvict(p) && metav1.GetControllerOfNoCopy(p) != nil && !kube.IsDaemon(p)
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
		for _, e := range t.MatchExpressions {
			term = append(term, plan.NodeRequirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
		for _, e := range t.MatchFields { // metadata.name is the only field selector
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

// onProducts adds the requirement to every term that the node has GPUs of each of these products.
// The driver uses NVML's names; GFD's label has dashes for blanks, and a pool's template may have
// our own name.
func onProducts(terms []plan.NodeTerm, products []string) []plan.NodeTerm {
	if len(products) == 0 {
		return terms
	}
	if len(terms) == 0 {
		terms = []plan.NodeTerm{nil}
	}
	for _, product := range products {
		label := strings.Join(strings.Fields(product), "-")
		is := plan.NodeRequirement{
			Key: partition.ProductLabel, Operator: string(corev1.NodeSelectorOpIn), Values: []string{label, label + "-SHARED", gpu.ProductName(product)},
		}
		for i := range terms {
			terms[i] = append(slices.Clip(terms[i]), is)
		}
	}
	return terms
}

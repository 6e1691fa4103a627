package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// ConvertPod is Claims.ConvertPod without any claims.
func ConvertPod(p *corev1.Pod) plan.Pod { return (*Claims)(nil).ConvertPod(p) }

// ConvertPod returns a pod as the planner sees it. Demand that no dialect can
// read is left zero, and Unreadable says why. Evictable does not know of budgets.
func (c *Claims) ConvertPod(p *corev1.Pod) plan.Pod {
	// As the scheduler counts: init containers, sidecars, overhead, pod-level
	// resources, and of what is being resized in place the larger.
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
		DaemonSet:    kube.IsDaemon(p),
		Others:       c.others(requests),
	}
	if p.Spec.Priority != nil {
		out.Priority = *p.Spec.Priority
	}
	if wants, err := c.demandOfPod(p); err != nil {
		out.Unreadable = err.Error()
	} else {
		out.Demand = wants.Demand
		out.Affinity = onProducts(out.Affinity, wants.products)
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

// scheduled reads what the scheduler said. A gated pod is not its business yet.
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

// owner names the controller for people. A ReplicaSet of a Deployment is named
// after it and the pod's template hash.
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

// Annotations by which a pod says whether it may be moved.
var safeToEvict = []string{"gpuscale.io/safe-to-evict", "cluster-autoscaler.kubernetes.io/safe-to-evict"}

func evictable(p *corev1.Pod) bool {
	for _, key := range safeToEvict {
		if p.Annotations[key] == "false" {
			return false
		}
	}
	return metav1.GetControllerOfNoCopy(p) != nil && !kube.IsDaemon(p)
}

// affinity returns the required node affinity. One without any term that could
// match gives a single term that nothing matches, since an empty list matches
// everything.
func affinity(p *corev1.Pod) []plan.NodeTerm {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	var terms []plan.NodeTerm
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var term plan.NodeTerm
		for _, e := range t.MatchExpressions {
			term = append(term, plan.NodeRequirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
		for _, e := range t.MatchFields { // metadata.name is the only field there is
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

// onProducts adds to every term that the node has cards of each of these products,
// which the driver names as NVML does. GFD's label has dashes for blanks, and a
// pool's template may have our own name.
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
			Key: productLabel, Operator: string(corev1.NodeSelectorOpIn), Values: []string{label, label + "-SHARED", gpu.ProductName(product)},
		}
		for i := range terms {
			terms[i] = append(slices.Clip(terms[i]), is)
		}
	}
	return terms
}

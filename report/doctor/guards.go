package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// guardChecks look at other programs' objects that block the autoscaler's writes.
var guardChecks = []Check{
	{
		ID: "budget-forever", Title: "PodDisruptionBudgets allow evictions of GPU pods", Run: budgetForever,
		Fault: "A PodDisruptionBudget of GPU pods on the nodes of a pool can never allow an eviction: `maxUnavailable` is 0, or `minAvailable` is the number of all its pods.",
		Means: "The nodes of these pods are never drained, scaled down or repartitioned: the autoscaler always respects PodDisruptionBudgets.",
		Looks: from(Budgets, Nodes, Pools, HPAs), Also: from(Pods),
	},
	{
		ID: "two-autoscalers", Title: "Only one autoscaler runs", Run: twoAutoscalers,
		Fault: "Two installations of gpuscale's autoscaler run in the cluster, each with its own Lease, and manage the same pools.",
		Means: "Each undoes what the other does, and nodes are added twice.",
		Looks: from(Deployments, DaemonSets), May: from(ConfigMaps),
	},
}

func budgetForever(l *look) {
	pools := allPools(l)
	ours := map[string]bool{} // nodes that are in a pool
	for _, n := range Nodes.in(l) {
		if find(pools, "", n.Labels[v1alpha1.NodePoolLabel]) != nil {
			ours[n.Name] = true
		}
	}
	for _, b := range Budgets.in(l) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		var pods []*corev1.Pod
		var names []string
		for _, p := range Pods.in(l) {
			if p.Namespace == b.Namespace && ours[p.Spec.NodeName] && len(gpuResources(&p.Spec)) > 0 && selector.Matches(labels.Set(p.Labels)) {
				pods, names = append(pods, p), append(names, p.Name)
			}
		}
		why := never(l, b, pods)
		if len(pods) == 0 || why == "" {
			continue
		}
		slices.Sort(names)
		l.warn("PodDisruptionBudget "+b.Namespace+"/"+b.Name, why+"; GPU pods of this budget: "+several(names), "Set maxUnavailable to 1, unless these pods must never be evicted.",
			l.patch(b.Namespace, "poddisruptionbudget", b.Name, `{"spec":{"maxUnavailable":1,"minAvailable":null}}`))
	}
}

// never returns why a disruption budget over these pods can never allow an eviction, or "" if it may.
func never(l *look, b *budget, pods []*corev1.Pod) string {
	if m := b.Spec.MaxUnavailable; m != nil {
		if m.String() == "0" || m.String() == "0%" {
			return "spec.maxUnavailable is " + m.String()
		}
		return ""
	}
	m := b.Spec.MinAvailable
	if m == nil {
		return ""
	}
	if m.Type == intstr.String {
		if share, err := strconv.Atoi(strings.TrimSuffix(m.StrVal, "%")); err == nil && share >= 100 {
			return "spec.minAvailable is " + m.StrVal
		}
		return ""
	}
	if b.Status.ExpectedPods == 0 || m.IntVal < b.Status.ExpectedPods {
		return ""
	}
	for _, h := range HPAs.in(l) {
		// With more replicas the budget may allow an eviction.
		if h.Namespace == b.Namespace && h.Spec.MaxReplicas > m.IntVal && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return scales(h, p) }) {
			return ""
		}
	}
	return fmt.Sprintf("spec.minAvailable is %d, and the budget is over %s", m.IntVal, count(int(b.Status.ExpectedPods), "pod"))
}

// scales reports whether a pod of the HPA's namespace is a replica of the HPA's target. A ReplicaSet has the
// name of its Deployment, a hyphen and a hash.
func scales(h *hpa, p *corev1.Pod) bool {
	of := metav1.GetControllerOfNoCopy(p)
	if of == nil {
		return false
	}
	hash, hashed := strings.CutPrefix(of.Name, h.Spec.ScaleTargetRef.Name+"-")
	return of.Name == h.Spec.ScaleTargetRef.Name || of.Kind == "ReplicaSet" && hashed && !strings.Contains(hash, "-")
}

func twoAutoscalers(l *look) {
	deciding := slices.DeleteFunc(l.programs("autoscaler"), func(p Program) bool {
		return p.Wanted <= 0 || slices.ContainsFunc(p.Args, isDryRun)
	})
	if len(deciding) < 2 {
		return
	}
	slices.SortStableFunc(deciding, func(a, b Program) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	first, _ := leaseOf(l, deciding[0])
	for _, p := range deciding[1:] {
		if of, known := leaseOf(l, p); known && of == first {
			continue // same Lease: only one of them leads
		}
		l.fault(p.Object(), "it runs in addition to the older "+deciding[0].Object(), "Keep one of them: uninstall the other, or set autoscaler.dryRun=true for it. The command stops the newer one.",
			l.in(p.Namespace, "scale", p.Ref(), "--replicas=0"))
	}
}

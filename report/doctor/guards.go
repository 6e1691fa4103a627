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
		ID: "budget-forever", Title: "Budgets allow evictions of pods with GPUs", Run: budgetForever,
		Fault: "A PodDisruptionBudget over pods with GPUs, on nodes of a pool, can never allow an eviction: `maxUnavailable` is 0, or `minAvailable` is all of them.",
		Means: "Their nodes are never drained, scaled down or repartitioned: budgets are always honoured.",
		Looks: from(Budgets, Nodes, Pools, HPAs), Also: from(Pods),
	},
	{
		ID: "two-autoscalers", Title: "One autoscaler a cluster", Run: twoAutoscalers,
		Fault: "Two installations of the autoscaler manage the same pools, each with its own Lease.",
		Means: "Each reverts the other, and nodes are added twice.",
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
		l.warn("PodDisruptionBudget "+b.Namespace+"/"+b.Name, why+", over "+several(names), "Allow one eviction at a time, unless this is intended.",
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
	return fmt.Sprintf("spec.minAvailable is %d, of %d pods", m.IntVal, b.Status.ExpectedPods)
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
		l.fault(p.Object(), "it runs beside "+deciding[0].Object()+", which is older", "Keep one: uninstall the other, or run it dry (autoscaler.dryRun=true).",
			l.in(p.Namespace, "scale", p.Ref(), "--replicas=0"))
	}
}

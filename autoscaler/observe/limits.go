package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// Limits of what the autoscaler reads for one namespace in a reconcile. Only the namespace that exceeds one is
// affected: its pods are not planned for, or not evicted.
const (
	// maxPending is how many of a namespace's pending pods that request GPUs are planned for: the oldest.
	maxPending = 10_000
	// maxRules is how many topology rules a pod may have: spread constraints, terms of affinity and
	// anti-affinity to pods.
	maxRules = 64
	// maxGroups is how many different groups of pods the topology rules of a namespace's pods may name.
	maxGroups = 500
	// maxConstraints is how many constraints on nodes a pod may have: its selectors with their values, tolerations,
	// other resources, host ports. Each is compared with each node.
	maxConstraints = 1000
	// maxLabels is how many different labels of nodes the selectors of a namespace's pods may name.
	maxLabels = 500
	// maxBudgets is how many PodDisruptionBudgets of a namespace are matched with its pods. Of a
	// namespace with more, no pod is evicted.
	maxBudgets = 500
	// maxSelectors is how many bytes the selectors of a claim's request and of its device class may have
	// together.
	maxSelectors = 4 << 10
	// maxDaemonSets is how many DaemonSets of a namespace are expected on new nodes, the first by name.
	maxDaemonSets = 100
)

// Limit names a limit of a namespace.
type Limit string

// The limits.
const (
	LimitPending     Limit = "pending_pods"
	LimitRules       Limit = "topology_rules"
	LimitConstraints Limit = "node_constraints"
	LimitBudgets     Limit = "disruption_budgets"
	LimitUnmade      Limit = "pods_to_come"
	LimitDaemonSets  Limit = "daemonsets"
)

// Exceeded is a limit that a namespace exceeds.
type Exceeded struct {
	Namespace string
	Limit     Limit
	Pods      int // that are left out, or not evicted
}

// maxExceeded bounds the list of a reconcile.
const maxExceeded = 100

type exceeded map[Exceeded]int // pods, by namespace and limit

func (e exceeded) add(namespace string, limit Limit, pods int) {
	e[Exceeded{Namespace: namespace, Limit: limit}] += pods
}

// list is sorted, those with the most pods first, and bounded.
func (e exceeded) list() []Exceeded {
	var out []Exceeded
	for one, pods := range e {
		one.Pods = pods
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Exceeded) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Limit), string(b.Limit)))
	})
	return out[:min(len(out), maxExceeded)]
}

// leaveOut makes a pending pod unreadable for a reason, so that nothing is done for it.
func leaveOut(p *plan.Pod, format string, args ...any) {
	p.Demand, p.Unreadable = demand.Demand{}, fmt.Sprintf(format, args...)
	p.Spread, p.Apart, p.Near = nil, nil, nil
	p.NodeSelector, p.Affinity, p.Tolerations, p.Others, p.HostPorts = nil, nil, nil, nil, nil
}

// constrain leaves out a pod with too many constraints on nodes, or of a namespace whose pods name too many labels.
func (c *cluster) constrain(p *plan.Pod) {
	n, labels := len(p.NodeSelector)+len(p.Tolerations)+len(p.Others)+len(p.HostPorts), c.labels[p.Namespace]
	if labels == nil {
		labels = map[string]bool{}
		c.labels[p.Namespace] = labels
	}
	for _, r := range slices.Concat(p.Affinity...) {
		n += 1 + len(r.Values)
	}
	if n > maxConstraints {
		leaveOut(p, "the pod has %d constraints on nodes (selectors and their values, tolerations, resources, host ports), at most %d are supported", n, maxConstraints)
		c.over.add(p.Namespace, LimitConstraints, 1)
		return
	}
	for name := range p.NodeSelector {
		labels[name] = true
	}
	for _, r := range slices.Concat(p.Affinity...) {
		labels[r.Key] = true
	}
	if len(labels) > maxLabels {
		leaveOut(p, "the selectors of the pods in namespace %s name more than %d different labels of nodes", p.Namespace, maxLabels)
		c.over.add(p.Namespace, LimitConstraints, 1)
	}
}

// overGroups leaves out a pod with topology rules in a namespace whose rules name too many groups.
func (c *cluster) overGroups(p *plan.Pod) {
	leaveOut(p, "the topology rules of the pods in namespace %s name more than %d different groups of pods", p.Namespace, maxGroups)
	c.over.add(p.Namespace, LimitRules, 1)
}

// limit applies the limits to the pods that were read; objects are theirs, in the same order.
func (c *cluster) limit(pods []plan.Pod, objects []*corev1.Pod) {
	pending := map[string][]int{}
	for i, p := range objects {
		out := &pods[i]
		if out.Node == "" {
			c.constrain(out)
		}
		if out.Node != "" || out.Unreadable != "" {
			continue
		}
		if n := rulesOf(&p.Spec); n > maxRules {
			leaveOut(out, "the pod has %d topology rules (spread constraints, terms of affinity to pods), at most %d are supported", n, maxRules)
			c.over.add(out.Namespace, LimitRules, 1)
		} else if n > 0 && c.rules.over(out.Namespace) {
			c.overGroups(out)
		} else if !out.Demand.Zero() {
			pending[out.Namespace] = append(pending[out.Namespace], i)
		}
	}
	for namespace, all := range pending {
		if len(all) <= maxPending {
			continue
		}
		slices.SortFunc(all, func(a, b int) int {
			return cmp.Or(pods[a].Created.Compare(pods[b].Created), strings.Compare(pods[a].Name, pods[b].Name))
		})
		for _, i := range all[maxPending:] {
			leaveOut(&pods[i], "namespace %s has %d pending pods that request GPUs, and only the oldest %d are planned for", namespace, len(all), maxPending)
		}
		c.over.add(namespace, LimitPending, len(all)-maxPending)
	}
}

// rulesOf counts the topology rules of a pod that the scheduler enforces.
func rulesOf(spec *corev1.PodSpec) int {
	apart, near := termsOf(spec.Affinity)
	n := len(apart) + len(near)
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			n++
		}
	}
	return n
}

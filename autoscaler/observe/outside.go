package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// outside reports whether a pod runs on a node without GPUs that is of no pool. Such pods and nodes are in a Snapshot
// only where topology rules of other pods concern them: kube-scheduler counts all pods, except those whose node is
// gone.
func (c *cluster) outside(p *corev1.Pod) bool {
	return c.byName[p.Spec.NodeName] != nil && c.facts[p.Spec.NodeName] == nil && !kube.IsOver(p) && p.DeletionTimestamp == nil
}

// apartOutside returns the anti-affinity rules of pods outside. Those about hosts are left out: no pod that requests
// GPUs fits on their hosts.
func (c *cluster) apartOutside() map[*corev1.Pod][]plan.Apart {
	out := map[*corev1.Pod][]plan.Apart{}
	for _, p := range c.pods {
		terms, _ := termsOf(p.Spec.Affinity)
		if len(terms) == 0 || len(terms) > maxRules || !c.outside(p) {
			continue
		}
		for i := range terms {
			if terms[i].TopologyKey != corev1.LabelHostname {
				out[p] = append(out[p], c.rules.apart(p.Namespace, p.Labels, &terms[i]))
			}
		}
	}
	return out
}

// addOutside adds to a Snapshot the pods outside that a rule of its pods selects, those whose anti-affinity keeps one
// of its pods away, and their nodes. It also adds the nodes that are in a topology domain of a spread constraint. These
// nodes have no capacity for a further pod.
func (c *cluster) addOutside(s *plan.Snapshot, apart map[*corev1.Pod][]plan.Apart) {
	at := concernedBy(s)
	here := map[string]int64{} // pods that are added, by node
	for _, p := range c.pods {
		if !c.outside(p) {
			continue
		}
		var groups []string
		for _, g := range c.rules.in(p.Namespace, p.Labels) {
			if at.named[g] {
				groups = append(groups, g)
			}
		}
		rules := slices.DeleteFunc(apart[p], func(r plan.Apart) bool { return !at.in[r.Group] })
		if len(groups)+len(rules) > 0 {
			s.Pods = append(s.Pods, plan.Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Owner: kube.Owner(p), Created: p.CreationTimestamp.Time, Groups: groups, Apart: rules})
			here[p.Spec.NodeName]++
		}
	}
	for i := range c.nodes.Items {
		n := &c.nodes.Items[i]
		if c.facts[n.Name] == nil && (here[n.Name] > 0 || at.isPlace(n)) {
			s.Nodes = append(s.Nodes, plan.Node{Name: n.Name, Labels: n.Labels, Taints: taintsOf(n), Ready: readyNode(n), Cordoned: n.Spec.Unschedulable,
				Others: []plan.Resource{{Name: string(corev1.ResourcePods), Amount: here[n.Name]}}})
		}
	}
}

// concerns is what the topology rules of a Snapshot's pods, and of the replicas that forecasts expect, are about.
type concerns struct {
	named, in map[string]bool      // groups that rules name, and those that pods are in
	spread    map[string]*plan.Pod // one for each set of constraints, node selector and affinity
}

func concernedBy(s *plan.Snapshot) concerns {
	c := concerns{named: map[string]bool{}, in: map[string]bool{}, spread: map[string]*plan.Pod{}}
	for i := range s.Pods {
		c.note(&s.Pods[i])
	}
	for i := range s.Forecasts {
		c.note(&s.Forecasts[i].Like)
	}
	return c
}

func (c *concerns) note(p *plan.Pod) {
	for _, r := range p.Spread {
		c.named[r.Group] = true
	}
	for _, r := range p.Apart {
		c.named[r.Group], c.named[r.Except] = true, true // "" is no group
	}
	for _, r := range p.Near {
		c.named[r.Group] = true
	}
	for _, g := range p.Groups {
		c.in[g] = true
	}
	if len(p.Spread) > 0 {
		c.spread[fmt.Sprintf("%v%q%q", p.Spread, p.NodeSelector, p.Affinity)] = p
	}
}

// isPlace reports whether a node is in a topology domain over which a pod is spread.
func (c *concerns) isPlace(n *corev1.Node) bool {
	at := plan.Node{Name: n.Name, Labels: n.Labels}
	lacks := func(r plan.Spread) bool { _, ok := at.Place(r.Key); return !ok }
	ignores := func(r plan.Spread) bool { return r.IgnoreAffinity }
	for _, p := range c.spread { // the order has no effect
		if slices.ContainsFunc(p.Spread, lacks) {
			continue
		}
		selecting := plan.Pod{NodeSelector: p.NodeSelector, Affinity: p.Affinity}
		if slices.ContainsFunc(p.Spread, ignores) || plan.Admits(selecting, n.Name, n.Labels, nil) {
			return true
		}
	}
	return false
}

package plan

import (
	"slices"
	"strings"
)

// topology counts pods by place, for the topology rules of the snapshot's pods.
// It is empty where there are no rules.
type topology struct {
	// at counts the pods of a rule's group by the value of its label.
	at map[Rule]map[string]int
	// barred counts, by place, the pods that exclude a group: their rule applies
	// to every later pod too.
	barred map[Rule]map[string]int
	// near counts the pods that are in all of a pod's near groups, by those
	// groups.
	near    map[string]*affinityGroup
	log     []counted // of the trial under way
	version int       // version of the counts
}

type counted struct {
	in    map[string]int
	value string
	by    int
}

// affinityGroup is the pods in all of some groups, by label and its value. As
// in Kubernetes, a pod near several groups needs one pod that is in all of
// them.
type affinityGroup struct {
	groups []string
	at     map[string]map[string]int
}

// affinityGroupOf is the key of a pod's near groups.
func affinityGroupOf(p *Pod) string {
	if len(p.Near) == 1 {
		return p.Near[0].Group
	}
	groups := make([]string, len(p.Near))
	for i, r := range p.Near {
		groups[i] = r.Group
	}
	slices.Sort(groups)
	return strings.Join(slices.Compact(groups), "\x00")
}

func (c *affinityGroup) has(p *Pod) bool {
	return !slices.ContainsFunc(c.groups, func(g string) bool { return !slices.Contains(p.Groups, g) })
}

// hostnameLabel has another value on every node.
const hostnameLabel = "kubernetes.io/hostname"

// Place is a node's value of a label, false for none. A node without a hostname
// label has its own name, as kubelet would set it.
func (n *Node) Place(key string) (string, bool) { return placeOf(n.Labels, n.Name, key) }

func placeOf(labels map[string]string, name, key string) (string, bool) {
	value, ok := labels[key]
	if !ok && key == hostnameLabel {
		return name, true
	}
	return value, ok
}

// place is a node's value of a label that it has, or will have. An upcoming
// node has a name of its own.
func (n *nodeState) place(labels map[string]string, key string) (string, bool) {
	return placeOf(labels, n.Node.Name, key)
}

// noteGroups records the groups that the rules of any pod select.
func (w *world) noteGroups(pods []Pod) {
	w.ruledOn = map[string]bool{}
	for i := range pods {
		p := &pods[i]
		for _, s := range p.Spread {
			w.ruledOn[s.Group] = true
		}
		for _, r := range p.Apart {
			w.ruledOn[r.Group] = true
		}
		for _, r := range p.Near {
			w.ruledOn[r.Group] = true
		}
	}
}

// addTopology collects the rules and counts running pods.
func (w *world) addTopology() {
	w.topology = topology{at: map[Rule]map[string]int{}, barred: map[Rule]map[string]int{}, near: map[string]*affinityGroup{}}
	for i := range w.kinds {
		w.ruled(w.kinds[i].pod)
	}
	for _, p := range w.running {
		for _, r := range p.Apart {
			w.topology.rule(w.topology.barred, r)
		}
	}
	if !w.topology.any() {
		return
	}
	for j, p := range w.running {
		if i := w.runsOn[j]; i >= 0 && !p.Leaving {
			w.place(p, &w.nodes[i], 1)
		}
	}
}

// any reports whether there are rules at all.
func (t *topology) any() bool { return len(t.at)+len(t.barred)+len(t.near) > 0 }

func (w *world) ruled(p *Pod) {
	for _, s := range p.Spread {
		w.topology.rule(w.topology.at, s.Rule)
	}
	for _, r := range p.Apart {
		w.topology.rule(w.topology.at, r)
		w.topology.rule(w.topology.barred, r)
	}
	if len(p.Near) == 0 {
		return
	}
	name := affinityGroupOf(p)
	c := w.topology.near[name]
	if c == nil {
		c = &affinityGroup{groups: strings.Split(name, "\x00"), at: map[string]map[string]int{}}
		w.topology.near[name] = c
	}
	for _, r := range p.Near {
		if c.at[r.Key] == nil {
			c.at[r.Key] = map[string]int{}
		}
	}
}

func (t *topology) rule(rules map[Rule]map[string]int, r Rule) {
	if rules[r] == nil {
		rules[r] = map[string]int{}
	}
}

// place counts a pod on a node to which it is bound or promised.
func (w *world) place(p *Pod, n *nodeState, by int) {
	t := &w.topology
	if !t.any() {
		return
	}
	labels, _ := w.labelsAndTaints(n)
	t.version++
	add := func(counts map[string]int, value string) {
		counts[value] += by
		if w.undo != nil {
			t.log = append(t.log, counted{counts, value, by})
		}
	}
	for r, counts := range t.at { // the order has no effect
		if value, ok := n.place(labels, r.Key); ok && slices.Contains(p.Groups, r.Group) {
			add(counts, value)
		}
	}
	for _, r := range p.Apart {
		if value, ok := n.place(labels, r.Key); ok && t.barred[r] != nil {
			add(t.barred[r], value)
		}
	}
	for _, c := range t.near {
		if !c.has(p) {
			continue
		}
		for key, counts := range c.at {
			if value, ok := n.place(labels, key); ok {
				add(counts, value)
			}
		}
	}
}

// revert undoes what was counted within a trial.
func (t *topology) revert() {
	for _, c := range t.log {
		c.in[c.value] -= c.by
	}
	t.version++
	t.log = nil
}

// tied reports a kind whose places depend on where other pods are: for such a
// kind a node can become usable again.
func (k *kind) tied() bool {
	p := k.pod
	return len(p.Spread)+len(p.Apart)+len(p.Near) > 0
}

// rulesAllow reports whether topology lets a pod of the kind onto a node. An
// upcoming node without the label is assumed to fit.
func (w *world) rulesAllow(k *kind, n *nodeState) bool {
	t := &w.topology
	if !t.any() {
		return true
	}
	labels, _ := w.labelsAndTaints(n)
	for r, counts := range t.barred { // all must hold, so the order has no effect
		if value, ok := n.place(labels, r.Key); ok && counts[value] > 0 && slices.Contains(k.pod.Groups, r.Group) {
			return false
		}
	}
	for _, r := range k.pod.Apart {
		if value, ok := n.place(labels, r.Key); ok && t.at[r][value] > 0 {
			return false
		}
	}
	if len(k.pod.Near) > 0 && !w.near(k, n, labels) {
		return false
	}
	for _, s := range k.pod.Spread {
		value, ok := n.place(labels, s.Key)
		least, somewhere := w.fewestAt(k, s.Rule)
		if n.virtual && (!ok || s.Key == hostnameLabel && !somewhere) {
			continue
		}
		more := 0
		if slices.Contains(k.pod.Groups, s.Group) {
			more = 1
		}
		if !ok || t.at[s.Rule][value]+more-least > max(s.MaxSkew, 1) {
			return false
		}
	}
	return true
}

// near reports whether a pod that the kind must be near is there. The first pod
// of a group that is near itself may be placed anywhere.
func (w *world) near(k *kind, n *nodeState, labels map[string]string) bool {
	c := w.topology.near[affinityGroupOf(k.pod)]
	if c == nil { // of a running pod: no pending pod has the same rule
		return false
	}
	there, any := true, false
	for _, r := range k.pod.Near {
		value, ok := n.place(labels, r.Key)
		if !ok && !n.virtual {
			return false
		}
		there = there && (!ok || c.at[r.Key][value] > 0)
		for _, pods := range c.at[r.Key] { // whether there is any
			any = any || pods > 0
		}
	}
	return there || !any && c.has(k.pod)
}

// fewestAt is the number of the group's pods in the place that has the fewest,
// of the places that the kind's selector and affinity admit. As in Kubernetes,
// a node that is cordoned, tainted or not ready counts as a place; one that
// does not exist yet does not. It is false where there is no place.
func (w *world) fewestAt(k *kind, r Rule) (int, bool) {
	if f, ok := k.fewest[r]; ok && f.version == w.topology.version && f.nodes == len(w.nodes) {
		return f.n, f.found
	}
	n, found := w.countFewest(k, r)
	if k.fewest == nil {
		k.fewest = map[Rule]fewest{}
	}
	k.fewest[r] = fewest{n, found, w.topology.version, len(w.nodes)}
	return n, found
}

// fewest is a cached count, valid while version and nodes are unchanged.
type fewest struct {
	n              int
	found          bool
	version, nodes int
}

func (w *world) countFewest(k *kind, r Rule) (int, bool) {
	fewest, found := 0, false
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || !w.admitsTainted(k, n) {
			continue
		}
		labels, _ := w.labelsAndTaints(n)
		if value, ok := n.place(labels, r.Key); ok && k.spreadsOver(n, labels) {
			if c := w.topology.at[r][value]; !found || c < fewest {
				fewest, found = c, true
			}
		}
	}
	return fewest, found
}

// spreadsOver reports whether a node's labels have all the keys that the kind
// is spread over: a node without one of them counts for none.
func (k *kind) spreadsOver(n *nodeState, labels map[string]string) bool {
	return !slices.ContainsFunc(k.pod.Spread, func(s Spread) bool {
		_, ok := n.place(labels, s.Key)
		return !ok
	})
}

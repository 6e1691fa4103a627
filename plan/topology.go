package plan

import (
	"slices"
	"strings"
)

// topology counts pods by place, for the topology rules of the snapshot's pods.
// It is empty where there are no rules.
type topology struct {
	rules   map[Rule]*ruleCount
	byGroup map[string][]*ruleCount
	// near counts the pods that are in all of a pod's near groups, by those
	// groups.
	near map[string]*affinityGroup
}

// ruleCount is the pods of a rule's group, and those that exclude it, by the
// value of the rule's label.
type ruleCount struct {
	Rule
	pods, barring map[string]int
	spreads       []*spreadPlaces
}

// affinityGroup is the pods in all of some groups, by label and its value. As
// in Kubernetes, a pod near several groups needs one pod that is in all of
// them.
type affinityGroup struct {
	groups  []string
	at      map[string]map[string]int
	total   map[string]int // by label
	changes int
}

func (c *affinityGroup) add(key, value string, by int) {
	c.at[key][value] += by
	c.total[key] += by
	c.changes++
}

// add counts a pod of the group.
func (r *ruleCount) add(value string, by int) {
	was := r.pods[value]
	is := was + by
	r.pods[value] = is
	for _, s := range r.spreads {
		if s.values[value] && !s.stale {
			s.changed(was, is)
		}
	}
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

// place is what topology rules know of a node.
type place struct {
	virtual bool
	name    string
	labels  map[string]string
}

func (p *place) value(key string) (string, bool) { return placeOf(p.labels, p.name, key) }

// place is a node's value of a label that it has, or will have. An upcoming
// node has a name of its own.
func (n *nodeState) place(labels map[string]string, key string) (string, bool) {
	return placeOf(labels, n.Node.Name, key)
}

// addTopology adds the rules of pending pods, and of those that have to leave a node, to
// the rules of running ones that keep others out, and counts running pods.
func (w *world) addTopology() {
	for i := range w.kinds {
		w.ruled(w.kinds[i].pod)
	}
	for i := range w.nodes {
		if n := &w.nodes[i]; n.LeavesAt.After(w.now) || n.Drain != nil {
			for _, p := range n.pods {
				w.ruled(p)
			}
		}
	}
	w.countAll()
}

// countAll counts running pods and what this plan has placed so far. The counts are zero.
func (w *world) countAll() {
	if !w.topology.any() {
		return
	}
	for _, r := range w.running {
		if r.node >= 0 && !r.pod.Leaving {
			w.count(r.pod, r.node, 1)
		}
	}
	for _, m := range w.moves {
		w.count(m.pod, m.node, m.by)
	}
}

// size counts the rules, and the labels of near groups: more of them have to be counted.
func (t *topology) size() int {
	n := len(t.rules)
	for _, c := range t.near {
		n += len(c.at)
	}
	return n
}

// reset sets all counts to zero.
func (t *topology) reset() {
	for _, r := range t.rules {
		clear(r.pods)
		clear(r.barring)
		for _, s := range r.spreads {
			s.stale = true
			s.changes++
		}
	}
	for _, c := range t.near {
		for _, values := range c.at {
			clear(values)
		}
		clear(c.total)
		c.changes++
	}
}

// any reports whether there are rules at all.
func (t *topology) any() bool { return len(t.rules)+len(t.near) > 0 }

func (w *world) ruled(p *Pod) {
	for _, s := range p.Spread {
		w.topology.rule(s.Rule)
	}
	for _, r := range p.Apart {
		w.topology.rule(r)
	}
	if len(p.Near) == 0 {
		return
	}
	name := affinityGroupOf(p)
	c := w.topology.near[name]
	if c == nil {
		c = &affinityGroup{groups: strings.Split(name, "\x00"), at: map[string]map[string]int{}, total: map[string]int{}}
		w.topology.near[name] = c
	}
	for _, r := range p.Near {
		if c.at[r.Key] == nil {
			c.at[r.Key] = map[string]int{}
		}
	}
}

func (t *topology) rule(r Rule) {
	if t.rules[r] == nil {
		c := &ruleCount{Rule: r, pods: map[string]int{}, barring: map[string]int{}}
		t.rules[r] = c
		t.byGroup[r.Group] = append(t.byGroup[r.Group], c)
	}
}

// count is a rule's count; a rule that only running pods have is not counted.
func (t *topology) count(r Rule) *ruleCount {
	if c := t.rules[r]; c != nil {
		return c
	}
	return &ruleCount{}
}

// about are the rules of which a pod is in the group, each once.
func (t *topology) about(p *Pod) []*ruleCount {
	if len(p.Groups) == 1 {
		return t.byGroup[p.Groups[0]]
	}
	var all []*ruleCount
	for i, g := range p.Groups {
		if !slices.Contains(p.Groups[:i], g) {
			all = append(all, t.byGroup[g]...)
		}
	}
	return all
}

// move is a pod that is counted on a node, or no longer (-1), by this plan.
type move struct {
	placedPod
	by int
}

// place counts a pod on a node to which it is promised, or no longer.
func (w *world) place(p *Pod, node, by int) {
	w.moves = append(w.moves, move{placedPod{node, p}, by})
	w.count(p, node, by)
	if w.journal.current != 0 {
		last := len(w.moves) - 1
		w.record(func() {
			w.moves = w.moves[:last]
			w.count(p, node, -by)
		})
	}
}

func (w *world) count(p *Pod, node, by int) {
	t := &w.topology
	if !t.any() {
		return
	}
	n := &w.nodes[node]
	labels, _ := w.labelsAndTaints(n)
	for _, r := range t.about(p) {
		if value, ok := n.place(labels, r.Key); ok {
			r.add(value, by)
		}
	}
	for _, rule := range p.Apart {
		r := t.rules[rule]
		if value, ok := n.place(labels, rule.Key); ok && r != nil {
			r.barring[value] += by
		}
	}
	for _, c := range t.near {
		if !c.has(p) {
			continue
		}
		for key := range c.at {
			if value, ok := n.place(labels, key); ok {
				c.add(key, value, by)
			}
		}
	}
}

// rulesAllow reports whether topology lets a pod of the kind onto a node. An
// upcoming node without the label is assumed to fit.
func (w *world) rulesAllow(k *kind, n *nodeState) bool {
	if !w.topology.any() {
		return true
	}
	labels, _ := w.labelsAndTaints(n)
	at := place{n.virtual, n.Node.Name, labels}
	return w.allows(k, &at, false) && w.allows(k, &at, true)
}

// allows applies the kind's rules about hosts, or the others.
func (w *world) allows(k *kind, at *place, hosts bool) bool {
	t := &w.topology
	for _, r := range t.about(k.pod) {
		if value, ok := at.value(r.Key); ok && (r.Key == hostnameLabel) == hosts && r.barring[value] > 0 {
			return false
		}
	}
	for _, r := range k.pod.Apart {
		if value, ok := at.value(r.Key); ok && (r.Key == hostnameLabel) == hosts && t.count(r).pods[value] > 0 {
			return false
		}
	}
	if len(k.pod.Near) > 0 && !w.near(k, at, hosts) {
		return false
	}
	for _, s := range k.pod.Spread {
		if (s.Key == hostnameLabel) != hosts {
			continue
		}
		value, ok := at.value(s.Key)
		least, somewhere := w.fewestAt(k, s)
		if at.virtual && (!ok || s.Key == hostnameLabel && !somewhere) {
			continue
		}
		more := 0
		if slices.Contains(k.pod.Groups, s.Group) {
			more = 1
		}
		if !ok || t.count(s.Rule).pods[value]+more-least > max(s.MaxSkew, 1) {
			return false
		}
	}
	return true
}

// near reports whether a pod that the kind must be near is there. The first pod
// of a group that is near itself may be placed anywhere.
func (w *world) near(k *kind, at *place, hosts bool) bool {
	c := w.topology.near[affinityGroupOf(k.pod)]
	if c == nil { // of a running pod: no pending pod has the same rule
		return false
	}
	first := c.has(k.pod) && !c.anywhere(k.pod)
	for _, r := range k.pod.Near {
		if (r.Key == hostnameLabel) != hosts {
			continue
		}
		value, ok := at.value(r.Key)
		if !ok && !at.virtual || ok && !first && c.at[r.Key][value] <= 0 {
			return false
		}
	}
	return true
}

// anywhere reports whether any pod of the group is in a place that the pod's
// rules know.
func (c *affinityGroup) anywhere(p *Pod) bool {
	return slices.ContainsFunc(p.Near, func(r Rule) bool { return c.total[r.Key] > 0 })
}

// epoch changes when the kind's rules about hosts may let it onto a node again
// that has not changed itself.
func (w *world) epoch(k *kind) int {
	sum := 0
	for _, s := range k.pod.Spread {
		if s.Key == hostnameLabel {
			sum += w.spreadOver(k, s).changes
		}
	}
	if slices.ContainsFunc(k.pod.Near, func(r Rule) bool { return r.Key == hostnameLabel }) {
		if c := w.topology.near[affinityGroupOf(k.pod)]; c != nil {
			sum += c.changes
		}
	}
	return sum
}

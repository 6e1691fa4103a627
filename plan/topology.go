package plan

import (
	"slices"
	"strings"
)

// topology counts pods by place, for the topology rules of the snapshot's pods.
// It is empty where there are no rules. Only place and count write to the counts, and
// place records in the journal how to undo it.
type topology struct {
	fleet   *fleet
	journal *journal
	rules   map[Rule]*ruleCount
	byGroup map[string][]*ruleCount
	barring []barring       // one for each label
	joint   []string        // groups that stand for several groups together, see nearGroup
	assumed map[Rule]string // the place in which a further pod of a rule's group is assumed, see allOrNoneIn
	// The rule that was added last, and the groups that were looked up last, with their
	// rules: pods of one owner have equal ones and follow each other.
	last     *ruleCount
	groups   []string
	ofGroups []*ruleCount
	// The labels that rules mention, the hostname aside; the heaps of the nodes by the values of these labels; and the
	// place of a node of each heap.
	labels []string
	heaps  map[string]int
	places []place
}

// ruleCount counts the pods of a rule's group in each place.
type ruleCount struct {
	Rule
	id             int
	pods           map[string]int  // by value of the rule's label
	on             map[int]int     // by node; nil unless pods are spread by the rule and its label is not the hostname
	total, changes int             // all pods; how often a count was changed
	spreads        []*spreadPlaces // of the kinds that the rule spreads
}

// barring has, for each value of a label, the rules by which pods there keep other pods away.
type barring struct {
	key string
	at  map[string][]barrier
}

// barrier is a rule and the number of pods in one place that have it.
type barrier struct {
	rule Apart
	pods int
}

// add counts a pod of the group on a node.
func (t *topology) add(r *ruleCount, node int, value string, by int) {
	r.total += by
	r.changes++
	r.pods[value] += by
	if r.on != nil {
		if r.on[node] += by; r.on[node] == 0 {
			delete(r.on, node) // a node that was only tried may be gone
		}
	}
	for _, s := range r.spreads {
		switch {
		case r.on != nil && !s.counts(&t.fleet.nodes[node]):
			s.apart[value] += by
		case s.values[value] && !s.stale:
			is := r.pods[value] - s.apart[value]
			s.changed(is-by, is)
		}
	}
}

// nearGroup names the group of the pods that are in all of a pod's near groups: the one group, or
// a joint name of several.
func nearGroup(p *Pod) string {
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

// nearRules are a pod's near rules. As in Kubernetes, a pod near several groups needs one
// pod that is in all of them.
func nearRules(p *Pod) []Rule {
	group := nearGroup(p)
	if !strings.Contains(group, "\x00") {
		return p.Near
	}
	rules := slices.Clone(p.Near)
	for i := range rules {
		rules[i].Group = group
	}
	return rules
}

// nearItself reports a pod that is in all of its near groups.
func nearItself(p *Pod) bool {
	return !slices.ContainsFunc(p.Near, func(r Rule) bool { return !slices.Contains(p.Groups, r.Group) })
}

// hostnameLabel has another value on every node.
const hostnameLabel = "kubernetes.io/hostname"

// nameField is the one field of nodes that a node selector term can match.
const nameField = "metadata.name"

// Place is a node's value of a label, false for none.
func (n *Node) Place(key string) (string, bool) {
	at := place{name: n.Name, labels: n.Labels}
	return at.value(key)
}

// place is what selectors and topology rules know of a node.
type place struct {
	virtual bool
	name    string
	labels  map[string]string
	groups  []string // of the pods of DaemonSets that an upcoming node will have
}

// has reports whether the node will have a pod of a DaemonSet in a group.
func (p *place) has(group string) bool { return slices.Contains(p.groups, group) }

// value is the value of a label, false for none. A node without a hostname label has
// its own name, as kubelet would set it.
func (p *place) value(key string) (string, bool) {
	value, ok := p.labels[key]
	if !ok && (key == hostnameLabel || key == nameField) {
		return p.name, true
	}
	return value, ok
}

// countRunning counts the running pods of all rules' groups, and those that are stuck.
func (t *topology) countRunning(running []placedPod) {
	if !t.any() {
		return
	}
	for _, r := range running {
		if r.node >= 0 && (!r.pod.Leaving || slices.Contains(t.fleet.nodes[r.node].stuck, r.pod)) {
			t.count(r.pod, r.node, 1)
		}
	}
}

// any reports whether there are rules at all.
func (t *topology) any() bool { return len(t.rules) > 0 }

// ruled adds a pod's rules.
func (t *topology) ruled(p *Pod) {
	for _, s := range p.Spread {
		if c := t.rule(s.Rule); c.on == nil && s.Key != hostnameLabel {
			c.on = map[int]int{}
		}
	}
	for _, r := range p.Apart {
		t.rule(r.Rule)
		if r.Except != "" {
			t.rule(Rule{r.Key, r.Except})
		}
	}
	if len(p.Near) == 0 {
		return
	}
	for i, r := range nearRules(p) {
		t.rule(r)
		if p.Near[i].Group != r.Group && !slices.Contains(t.joint, r.Group) {
			t.joint = append(t.joint, r.Group)
		}
	}
}

func (t *topology) rule(r Rule) *ruleCount {
	if t.last != nil && t.last.Rule == r {
		return t.last
	}
	c := t.rules[r]
	if c == nil {
		c = &ruleCount{Rule: r, id: len(t.rules), pods: map[string]int{}}
		t.rules[r] = c
		t.byGroup[r.Group] = append(t.byGroup[r.Group], c)
	}
	t.last, t.ofGroups = c, nil
	return c
}

// about lists the rules whose group a pod is in, each once.
func (t *topology) about(p *Pod) []*ruleCount {
	if t.ofGroups != nil && slices.Equal(p.Groups, t.groups) {
		return t.ofGroups
	}
	if t.groups = p.Groups; len(p.Groups) == 1 { // and so in no joint one
		t.ofGroups = t.byGroup[p.Groups[0]]
		return t.ofGroups
	}
	all := []*ruleCount{}
	for _, g := range slices.Compact(slices.Sorted(slices.Values(p.Groups))) {
		all = append(all, t.byGroup[g]...)
	}
	for _, g := range t.joint {
		if !slices.ContainsFunc(strings.Split(g, "\x00"), func(one string) bool { return !slices.Contains(p.Groups, one) }) {
			all = append(all, t.byGroup[g]...)
		}
	}
	t.ofGroups = all
	return all
}

// bar counts a pod that excludes a rule's group from a place.
func (t *topology) bar(r Apart, value string, by int) {
	key := slices.IndexFunc(t.barring, func(b barring) bool { return b.key == r.Key })
	if key < 0 {
		key = len(t.barring)
		t.barring = append(t.barring, barring{r.Key, map[string][]barrier{}})
	}
	all := t.barring[key].at[value]
	i := slices.IndexFunc(all, func(b barrier) bool { return b.rule == r })
	if i < 0 {
		i, all = len(all), append(all, barrier{rule: r})
	}
	if all[i].pods += by; all[i].pods == 0 {
		all = slices.Delete(all, i, i+1)
	}
	t.barring[key].at[value] = all
}

// barred reports whether rules of pods in a place exclude the kind: with hosts the rules about hosts, else all others.
func (t *topology) barred(k *kind, at *place, hosts bool) bool {
	for i := range t.barring {
		b := &t.barring[i]
		if (b.key == hostnameLabel) != hosts {
			continue
		}
		if value, ok := at.value(b.key); ok {
			for _, barrier := range b.at[value] {
				if k.in(barrier.rule.Group) && !k.in(barrier.rule.Except) {
					return true
				}
			}
		}
	}
	return false
}

// excluded counts the pods in a place that a rule keeps a pod away from.
func (t *topology) excluded(r Apart, value string) int {
	n := t.rules[r.Rule].pods[value]
	if r.Except != "" {
		n -= t.rules[Rule{r.Key, r.Except}].pods[value]
	}
	return n
}

// in reports whether the kind's pods are in a group.
func (k *kind) in(group string) bool {
	if len(k.pod.Groups) <= 4 {
		return slices.Contains(k.pod.Groups, group)
	}
	if k.groups == nil {
		k.groups = make(map[string]bool, len(k.pod.Groups))
		for _, g := range k.pod.Groups {
			k.groups[g] = true
		}
	}
	return k.groups[group]
}

// place counts a pod on a node (by is 1) or discounts it (-1), and journals that.
func (t *topology) place(p *Pod, node, by int) {
	t.count(p, node, by)
	t.journal.record(func() { t.count(p, node, -by) })
}

func (t *topology) count(p *Pod, node, by int) {
	if !t.any() {
		return
	}
	at := t.fleet.nodes[node].place()
	for _, r := range t.about(p) {
		if value, ok := at.value(r.Key); ok {
			t.add(r, node, value, by)
		}
	}
	for _, rule := range p.Apart {
		if value, ok := at.value(rule.Key); ok {
			t.bar(rule, value, by)
		}
	}
}

// rulesAllow reports whether topology lets a pod of the kind onto a node. An
// upcoming node without the label is assumed to fit.
func (t *topology) rulesAllow(k *kind, n *nodeState) bool {
	return !t.any() || t.rulesAllowAt(k, n.place())
}

// hostAllows is rulesAllow for the rules about hosts only.
func (t *topology) hostAllows(k *kind, n *nodeState) bool {
	if !t.any() {
		return true
	}
	at := n.place()
	return t.allows(k, &at, true)
}

func (t *topology) rulesAllowAt(k *kind, at place) bool {
	return t.allows(k, &at, false) && t.allows(k, &at, true)
}

// allows applies the kind's rules and those about it: with hosts the rules about hosts, else all others.
func (t *topology) allows(k *kind, at *place, hosts bool) bool {
	if t.barred(k, at, hosts) {
		return false
	}
	for _, r := range k.pod.Apart {
		if value, ok := at.value(r.Key); ok && (r.Key == hostnameLabel) == hosts && (t.excluded(r, value) > 0 || at.has(r.Group) && !at.has(r.Except)) {
			return false
		}
	}
	if len(k.pod.Near) > 0 && !t.near(k, at, hosts) {
		return false
	}
	for _, s := range k.pod.Spread {
		if (s.Key == hostnameLabel) != hosts {
			continue
		}
		value, ok := at.value(s.Key)
		places := t.spreadOver(k, s)
		least, somewhere := places.fewest(t.rules[s.Rule].pods)
		if at.virtual && (!ok || s.Key == hostnameLabel && !somewhere) {
			continue
		}
		more := 0
		if slices.Contains(k.pod.Groups, s.Group) {
			more = 1
		}
		if !ok || t.rules[s.Rule].pods[value]-places.apart[value]+more-least > max(s.MaxSkew, 1) {
			return false
		}
	}
	return true
}

// near reports whether a pod that the kind must be near is there. The first pod
// of a group that is near itself may be placed anywhere.
func (t *topology) near(k *kind, at *place, hosts bool) bool {
	rules := nearRules(k.pod)
	for _, r := range rules {
		if (r.Key == hostnameLabel) != hosts {
			continue
		}
		value, ok := at.value(r.Key)
		there, assumed := t.assumed[r]
		switch {
		case !ok && !at.virtual:
			return false
		case nearItself(k.pod) && !t.anywhere(rules): // it is the first
		case at.has(r.Group):
		case !ok && t.rules[r].total <= 0 && !assumed: // wherever the node will be, there is no pod of the group
			return false
		case ok && t.rules[r].pods[value] <= 0 && !(assumed && value == there):
			return false
		}
	}
	return true
}

// anywhere reports whether any pod of the rules' group has a place.
func (t *topology) anywhere(rules []Rule) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		_, assumed := t.assumed[r]
		return assumed || t.rules[r].total > 0
	})
}

// epoch changes whenever the kind's rules about hosts may admit it to a node again although the
// node itself has not changed.
func (t *topology) epoch(k *kind) int {
	sum := 0
	for _, s := range k.pod.Spread {
		if s.Key == hostnameLabel {
			sum += t.spreadOver(k, s).changes
		}
	}
	for _, r := range nearRules(k.pod) {
		if r.Key == hostnameLabel {
			sum += t.rules[r].changes
		}
	}
	return sum
}

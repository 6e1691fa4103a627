package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/plan"
)

// rules turns pods' rules about other pods into the planner's groups. A group is the pods in some
// namespaces that a selector matches; equal groups have equal names.
type rules struct {
	namespaces []corev1.Namespace
	groups     map[string]labels.Selector
	byPlace    map[string][]string // group names, by namespace
	matched    map[string][]string // group names, by namespace and labels of a pod
	owned      map[string]int      // groups that a namespace's pods were the first to name
	selected   map[string][]string // namespaces, by selector
	work       int                 // comparisons of labels with a selector
}

func newRules(namespaces []corev1.Namespace) *rules {
	return &rules{namespaces: namespaces, groups: map[string]labels.Selector{}, byPlace: map[string][]string{}, matched: map[string][]string{}, owned: map[string]int{}, selected: map[string][]string{}}
}

// over reports whether the rules of a namespace's pods name more groups than are read.
func (r *rules) over(namespace string) bool { return r.owned[namespace] > maxGroups }

// of writes a pod's own rules into its plan, only those that the scheduler enforces. Those of a pod
// with too many are left out.
func (r *rules) of(namespace string, has map[string]string, spec *corev1.PodSpec, out *plan.Pod) {
	if rulesOf(spec) > maxRules {
		return
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		name := r.group(namespace, namespace, func() []string { return []string{namespace} }, spreadSelector(c, has), has, c.MatchLabelKeys, nil)
		out.Spread = append(out.Spread, plan.Spread{Rule: plan.Rule{Key: c.TopologyKey, Group: name}, MaxSkew: int(max(c.MaxSkew, 1)), MinDomains: int(ptr.Deref(c.MinDomains, 0)),
			IgnoreAffinity: ptr.Deref(c.NodeAffinityPolicy, "") == corev1.NodeInclusionPolicyIgnore, HonorTaints: ptr.Deref(c.NodeTaintsPolicy, "") == corev1.NodeInclusionPolicyHonor})
	}
	apart, near := termsOf(spec.Affinity)
	for i := range apart {
		out.Apart = append(out.Apart, r.apart(namespace, has, &apart[i]))
	}
	for i := range near {
		out.Near = append(out.Near, r.term(namespace, has, &near[i]))
	}
}

// spreadSelector returns the selector of the pods that a spread constraint counts. By an empty selector kube-scheduler
// counts no pod (1.37, podtopologyspread/common.go). Elsewhere an empty selector selects every pod.
func spreadSelector(c *corev1.TopologySpreadConstraint, has map[string]string) *metav1.LabelSelector {
	s := c.LabelSelector
	narrowing := func(key string) bool { _, ok := has[key]; return ok }
	if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 && !slices.ContainsFunc(c.MatchLabelKeys, narrowing) {
		return nil
	}
	return s
}

// termsOf returns the required terms of anti-affinity and of affinity to pods.
func termsOf(a *corev1.Affinity) (apart, near []corev1.PodAffinityTerm) {
	if a != nil && a.PodAntiAffinity != nil {
		apart = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if a != nil && a.PodAffinity != nil {
		near = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return apart, near
}

func (r *rules) term(namespace string, has map[string]string, t *corev1.PodAffinityTerm) plan.Rule {
	in, namespaces := r.across(namespace, t)
	name := r.group(namespace, in, namespaces, t.LabelSelector, has, t.MatchLabelKeys, t.MismatchLabelKeys)
	return plan.Rule{Key: t.TopologyKey, Group: name}
}

// apart is term for anti-affinity. A selector of the form "KEY exists, and is not V" becomes two groups: the pods with
// KEY, except those with the value V. So where each of many sets is apart from all others, a pod is in two groups
// instead of one for every other set.
func (r *rules) apart(namespace string, has map[string]string, t *corev1.PodAffinityTerm) plan.Apart {
	s := t.LabelSelector
	if s == nil || len(s.MatchLabels)+len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 || len(s.MatchExpressions) != 2 {
		return plan.Apart{Rule: r.term(namespace, has, t)}
	}
	some, not := s.MatchExpressions[0], s.MatchExpressions[1]
	if some.Operator == metav1.LabelSelectorOpNotIn {
		some, not = not, some
	}
	if some.Operator != metav1.LabelSelectorOpExists || not.Operator != metav1.LabelSelectorOpNotIn || some.Key != not.Key {
		return plan.Apart{Rule: r.term(namespace, has, t)}
	}
	all, own := *t, *t
	not.Operator = metav1.LabelSelectorOpIn
	all.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{some}}
	own.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{not}}
	return plan.Apart{Rule: r.term(namespace, has, &all), Except: r.term(namespace, has, &own).Group}
}

// across returns the namespaces of a term, and a name for them: those named and those selected, else the pod's own. The
// name has the selector in place of the namespaces it selects: there may be thousands, and every pod has the name.
func (r *rules) across(namespace string, t *corev1.PodAffinityTerm) (string, func() []string) {
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return namespace, func() []string { return []string{namespace} }
	}
	named := slices.Compact(slices.Sorted(slices.Values(t.Namespaces)))
	in := strings.Join(named, ",")
	selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
	if t.NamespaceSelector == nil || err != nil {
		return in, func() []string { return named }
	}
	return in + "{" + selector.String() + "}", func() []string {
		all := append(named, r.selecting(selector)...)
		slices.Sort(all)
		return slices.Compact(all)
	}
}

// selecting returns the namespaces that a selector selects.
func (r *rules) selecting(selector labels.Selector) []string {
	text := selector.String()
	out, known := r.selected[text]
	if known {
		return out
	}
	for i := range r.namespaces {
		r.work++
		if selector.Matches(labels.Set(r.namespaces[i].Labels)) {
			out = append(out, r.namespaces[i].Name)
		}
	}
	r.selected[text] = out
	return out
}

// group records a group that a pod of the namespace by names, and returns the group's name; in is the name of the
// group's namespaces. An invalid selector matches nothing, as for the scheduler. Once a namespace has too many groups,
// further ones are not recorded and match no pod.
func (r *rules) group(by, in string, namespaces func() []string, s *metav1.LabelSelector, has map[string]string, same, other []string) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		selector = labels.Nothing()
	}
	for _, key := range same {
		selector = narrowed(selector, key, selection.In, has)
	}
	for _, key := range other {
		selector = narrowed(selector, key, selection.NotIn, has)
	}
	text := selector.String()
	if selector == labels.Nothing() || err != nil {
		text = "none"
	}
	name := in + "/" + text
	if _, known := r.groups[name]; !known {
		if r.owned[by]++; r.owned[by] > maxGroups {
			return name
		}
		r.groups[name] = selector
		for _, ns := range namespaces() {
			r.byPlace[ns] = append(r.byPlace[ns], name)
		}
	}
	return name
}

// narrowed adds the requirement that a label has, or has not, the pod's own value.
func narrowed(s labels.Selector, key string, operator selection.Operator, has map[string]string) labels.Selector {
	value, ok := has[key]
	if !ok {
		return s
	}
	extra, err := labels.NewRequirement(key, operator, []string{value})
	if err != nil {
		return s
	}
	return s.Add(*extra)
}

// in returns the groups that a pod belongs to, once all rules are known.
func (r *rules) in(namespace string, has map[string]string) []string {
	names := r.byPlace[namespace]
	if len(names) == 0 {
		return nil
	}
	// Pods of one owner mostly have the same labels.
	key := namespace + "\x00" + labels.Set(has).String()
	if out, ok := r.matched[key]; ok {
		return out
	}
	var out []string
	for _, name := range names {
		r.work++
		if r.groups[name].Matches(labels.Set(has)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	r.matched[key] = out
	return out
}

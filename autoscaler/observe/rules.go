package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/plan"
)

// rules turns pods' rules about other pods into the planner's groups. A group is the pods in some
// namespaces that a selector matches; equal groups have equal names.
type rules struct {
	namespaces []corev1.Namespace
	groups     map[string]group
	byPlace    map[string][]string // group names, by namespace
	matched    map[string][]string // by labels of earlier pods
	owned      map[string]int      // groups that a namespace's pods were the first to name
	selected   map[string][]string // namespaces, by selector
	work       int                 // comparisons of labels with a selector
}

type group struct {
	namespaces []string
	selector   labels.Selector
}

func newRules(namespaces []corev1.Namespace) *rules {
	return &rules{namespaces: namespaces, groups: map[string]group{}, byPlace: map[string][]string{}, matched: map[string][]string{}, owned: map[string]int{}, selected: map[string][]string{}}
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
		name := r.group(namespace, []string{namespace}, c.LabelSelector, has, c.MatchLabelKeys, nil)
		out.Spread = append(out.Spread, plan.Spread{Rule: plan.Rule{Key: c.TopologyKey, Group: name}, MaxSkew: int(max(c.MaxSkew, 1))})
	}
	if spec.Affinity == nil {
		return
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		out.Apart = r.terms(namespace, has, a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		out.Near = r.terms(namespace, has, a.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (r *rules) terms(namespace string, has map[string]string, terms []corev1.PodAffinityTerm) []plan.Rule {
	var out []plan.Rule
	for i := range terms {
		t := &terms[i]
		name := r.group(namespace, r.across(namespace, t), t.LabelSelector, has, t.MatchLabelKeys, t.MismatchLabelKeys)
		out = append(out, plan.Rule{Key: t.TopologyKey, Group: name})
	}
	return out
}

// across returns the namespaces of a term: those named and those selected, else the pod's own.
func (r *rules) across(namespace string, t *corev1.PodAffinityTerm) []string {
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return []string{namespace}
	}
	all := slices.Clone(t.Namespaces)
	if selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector); err == nil {
		all = append(all, r.selecting(selector)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// selecting returns the namespaces that a selector selects.
func (r *rules) selecting(selector labels.Selector) []string {
	text := selector.String()
	if selector == labels.Nothing() {
		return nil
	}
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

// group records a group that a pod of a namespace names, and returns its name. An invalid selector
// matches nothing, as for the scheduler. Of a namespace with too many groups the last are not
// recorded: they match no pod.
func (r *rules) group(by string, namespaces []string, s *metav1.LabelSelector, has map[string]string, same, other []string) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		selector = labels.Nothing()
	}
	for _, key := range same {
		selector = narrowed(selector, key, "in", has)
	}
	for _, key := range other {
		selector = narrowed(selector, key, "notin", has)
	}
	text := selector.String()
	if selector == labels.Nothing() || err != nil {
		text = "none"
	}
	name := strings.Join(namespaces, ",") + "/" + text
	if _, known := r.groups[name]; !known {
		if r.owned[by]++; r.owned[by] > maxGroups {
			return name
		}
		r.groups[name] = group{namespaces, selector}
		for _, ns := range namespaces {
			r.byPlace[ns] = append(r.byPlace[ns], name)
		}
	}
	return name
}

// narrowed adds the requirement that a label has, or has not, the pod's own value.
func narrowed(s labels.Selector, key, operator string, has map[string]string) labels.Selector {
	value, ok := has[key]
	if !ok {
		return s
	}
	extra, err := labels.Parse(key + " " + operator + " (" + value + ")")
	if err != nil {
		return s
	}
	requirements, _ := extra.Requirements()
	return s.Add(requirements...)
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
		if r.groups[name].selector.Matches(labels.Set(has)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	r.matched[key] = out
	return out
}

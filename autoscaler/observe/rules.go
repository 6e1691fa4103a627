package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/plan"
)

// rules turns what pods say about other pods into the planner's groups: the pods of
// some namespaces that a selector picks, under a name that is the same wherever it
// is said.
type rules struct {
	namespaces []corev1.Namespace
	groups     map[string]group
	byPlace    map[string][]string // groups over a namespace, by name
	matched    map[string][]string // of labels seen before
}

type group struct {
	namespaces []string
	selector   labels.Selector
}

func newRules(namespaces []corev1.Namespace) *rules {
	return &rules{namespaces: namespaces, groups: map[string]group{}, byPlace: map[string][]string{}, matched: map[string][]string{}}
}

// of writes a pod's own rules into its plan. Only those that the scheduler insists on
// are rules here.
func (r *rules) of(namespace string, has map[string]string, spec *corev1.PodSpec, out *plan.Pod) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		name := r.group([]string{namespace}, c.LabelSelector, has, c.MatchLabelKeys, nil)
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
		name := r.group(r.over(namespace, t), t.LabelSelector, has, t.MatchLabelKeys, t.MismatchLabelKeys)
		out = append(out, plan.Rule{Key: t.TopologyKey, Group: name})
	}
	return out
}

// over are the namespaces of a term: those named, those selected, else the pod's own.
func (r *rules) over(namespace string, t *corev1.PodAffinityTerm) []string {
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return []string{namespace}
	}
	all := slices.Clone(t.Namespaces)
	if selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector); err == nil {
		for i := range r.namespaces {
			if selector.Matches(labels.Set(r.namespaces[i].Labels)) {
				all = append(all, r.namespaces[i].Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// group notes a group and returns its name. A selector that cannot be read picks
// nobody, as for the scheduler.
func (r *rules) group(namespaces []string, s *metav1.LabelSelector, has map[string]string, same, other []string) string {
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
		text = "nobody"
	}
	name := strings.Join(namespaces, ",") + "/" + text
	if _, known := r.groups[name]; !known {
		r.groups[name] = group{namespaces, selector}
		for _, ns := range namespaces {
			r.byPlace[ns] = append(r.byPlace[ns], name)
		}
	}
	return name
}

// narrowed adds to a selector that a label has, or has not, the pod's own value.
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

// in returns the groups that a pod is counted in, once all rules are known.
func (r *rules) in(namespace string, has map[string]string) []string {
	names := r.byPlace[namespace]
	if len(names) == 0 {
		return nil
	}
	// Pods of one owner have the same labels, mostly.
	key := namespace + "\x00" + labels.Set(has).String()
	if out, ok := r.matched[key]; ok {
		return out
	}
	var out []string
	for _, name := range names {
		if r.groups[name].selector.Matches(labels.Set(has)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	r.matched[key] = out
	return out
}

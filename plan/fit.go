package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// classify groups nodes that are equal to selectors and tolerations: the same
// taints, and the same values of the labels that pending pods mention. Nodes
// that differ in other labels only are one class.
func (w *world) classify() {
	keys := w.requestedLabels()
	ids := map[string]int{}
	var b []byte
	class := func(labels map[string]string, taints []Taint) int {
		b = b[:0]
		for _, k := range keys {
			if v, ok := labels[k]; ok {
				b = strconv.AppendQuote(b, v)
			}
			b = append(b, ',')
		}
		for _, t := range taints {
			b = strconv.AppendQuote(b, t.Key)
			b = strconv.AppendQuote(b, t.Value)
			b = strconv.AppendQuote(b, t.Effect)
		}
		id, ok := ids[string(b)]
		if !ok {
			id = len(ids)
			ids[string(b)] = id
		}
		return id
	}
	for i := range w.nodes {
		w.nodes[i].class = class(w.labelsAndTaints(&w.nodes[i]))
	}
	for i := range w.pools {
		t := &w.pools[i].Template
		w.pools[i].class = class(t.Labels, t.Taints)
	}
	w.classes = len(ids)
	for i := range w.kinds {
		w.kinds[i].static = make([]verdictOnce, w.classes)
	}
}

// requestedLabels lists the labels that any kind's selector, affinity or volumes
// mention.
func (w *world) requestedLabels() []string {
	var keys []string
	for i := range w.kinds {
		p := w.kinds[i].pod
		keys = slices.AppendSeq(keys, maps.Keys(p.NodeSelector))
		for _, terms := range append([][]NodeTerm{p.Affinity}, p.Volumes...) {
			for _, term := range terms {
				for _, r := range term {
					keys = append(keys, r.Key)
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// admits reports whether selectors, taints and volumes let the kind onto a node.
func (w *world) admits(k *kind, n *nodeState) bool { return w.judge(k, n) == fits }

// admitsTainted reports whether selectors let the kind onto a node, taints and
// volumes apart.
func (w *world) admitsTainted(k *kind, n *nodeState) bool { return w.judge(k, n) != fitsNot }

func (w *world) judge(k *kind, n *nodeState) verdictOnce {
	if k.static != nil && k.static[n.class] != 0 {
		return k.static[n.class]
	}
	labels, taints := w.labelsAndTaints(n)
	return k.judge(n.class, labels, taints)
}

// admitsNew reports whether selectors, taints and volumes let the kind onto a new
// node of a pool.
func (k *kind) admitsNew(p *poolState) bool {
	if k.static != nil && k.static[p.class] != 0 {
		return k.static[p.class] == fits
	}
	return k.judge(p.class, p.Template.Labels, p.Template.Taints) == fits
}

// judge is not cached for a kind added after nodes were classified.
func (k *kind) judge(class int, labels map[string]string, taints []Taint) verdictOnce {
	v := fits
	switch {
	case !fitsLabels(k.pod, labels):
		v = fitsNot
	case mismatch(k.pod, labels, taints) != "":
		v = fitsSelectors
	}
	if k.static != nil {
		k.static[class] = v
	}
	return v
}

// labelsAndTaints are those of a node once it is ready. An upcoming node has its
// pool's template's: start-up taints are removed, and the device plugin and GFD add
// their labels.
func (w *world) labelsAndTaints(n *nodeState) (map[string]string, []Taint) {
	if !n.virtual && n.tier != tierNode {
		return n.Labels, n.Taints
	}
	template := &w.pools[n.pool].Template
	if n.virtual {
		return template.Labels, template.Taints
	}
	labels := make(map[string]string, len(n.Labels)+len(template.Labels))
	maps.Copy(labels, template.Labels)
	maps.Copy(labels, n.Labels)
	return labels, template.Taints
}

// fitsLabels reports whether the pod's node selector and required node affinity
// admit a node with these labels.
func fitsLabels(pod *Pod, labels map[string]string) bool {
	// All must hold, so the map's order has no effect.
	for k, want := range pod.NodeSelector {
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	return len(pod.Affinity) == 0 || fitsAny(pod.Affinity, labels)
}

func fitsAny(terms []NodeTerm, labels map[string]string) bool {
	return slices.ContainsFunc(terms, func(t NodeTerm) bool { return fitsTerm(t, labels) })
}

const labelsMismatch = "labels do not match"

// mismatch returns what keeps a pod from nodes with these labels and taints,
// empty for nothing.
func mismatch(pod *Pod, labels map[string]string, taints []Taint) string {
	if t, out := untolerated(pod, taints); out {
		return "taint " + t.Key + " is not tolerated"
	}
	if !fitsLabels(pod, labels) {
		return labelsMismatch
	}
	for _, terms := range pod.Volumes {
		if !fitsAny(terms, labels) {
			return "volume node affinity conflict (" + termsText(terms) + ")"
		}
	}
	return ""
}

// termsText is "zone In a, b or host In c".
func termsText(terms []NodeTerm) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		all := make([]string, len(t))
		for j, r := range t {
			all[j] = strings.TrimSpace(r.Key + " " + r.Operator + " " + strings.Join(r.Values, ", "))
		}
		parts[i] = strings.Join(all, " and ")
	}
	return strings.Join(parts, " or ")
}

// fitsTerm reports whether all requirements hold. An empty term matches
// nothing, as in Kubernetes.
func fitsTerm(term NodeTerm, labels map[string]string) bool {
	return len(term) > 0 && !slices.ContainsFunc(term, func(r NodeRequirement) bool { return !fitsRequirement(r, labels) })
}

func fitsRequirement(r NodeRequirement, labels map[string]string) bool {
	have, ok := labels[r.Key]
	in := slices.Contains(r.Values, have)
	switch r.Operator {
	case "In":
		return ok && in
	case "NotIn":
		return !ok || !in
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	case "Gt", "Lt":
		return ok && len(r.Values) == 1 && compareNumbers(r.Operator, have, r.Values[0])
	default: // an unknown operator admits nothing
		return false
	}
}

func compareNumbers(operator, have, want string) bool {
	h, err1 := strconv.ParseInt(have, 10, 64)
	w, err2 := strconv.ParseInt(want, 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	if operator == "Gt" {
		return h > w
	}
	return h < w
}

// untolerated returns the first taint that keeps the pod out, false for none.
func untolerated(pod *Pod, taints []Taint) (Taint, bool) {
	for _, t := range taints {
		if t.Effect != "NoSchedule" && t.Effect != "NoExecute" {
			continue
		}
		if !tolerated(pod.Tolerations, t) {
			return t, true
		}
	}
	return Taint{}, false
}

func tolerated(tolerations []Toleration, t Taint) bool {
	for _, o := range tolerations {
		if o.Effect != "" && o.Effect != t.Effect {
			continue
		}
		if o.Key != t.Key && !(o.Key == "" && o.Operator == "Exists") {
			continue
		}
		switch o.Operator {
		case "", "Equal":
			if o.Value == t.Value {
				return true
			}
		case "Exists":
			return true
		case "Gt", "Lt":
			if compareNumbers(o.Operator, t.Value, o.Value) {
				return true
			}
		}
	}
	return false
}

// Admits reports whether a pod's node selector, required affinity, tolerations and
// volumes let it onto a node with these labels and taints, resources aside.
func Admits(pod Pod, labels map[string]string, taints []Taint) bool {
	return mismatch(&pod, labels, taints) == ""
}

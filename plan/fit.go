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
	class := func(at place, taints []Taint) int {
		b = b[:0]
		for _, k := range keys {
			if v, ok := at.value(k); ok {
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
	judge := func(n *nodeState) {
		n.class, n.heap = class(n.place(), n.taintsWhenReady()), w.topology.heapAt(n.place())
	}
	for _, n := range w.eachNode() {
		judge(n)
	}
	for _, p := range w.pools {
		judge(p.fresh)
	}
	for _, k := range w.kinds {
		k.static, k.placed = make([]verdictOnce, len(ids)), w.topology.placed(k.pod)
	}
}

// requestedLabels lists the labels that any kind's selector, affinity, volumes or
// devices mention.
func (q *queue) requestedLabels() []string {
	var keys []string
	for _, k := range q.kinds {
		p := k.pod
		keys = slices.AppendSeq(keys, maps.Keys(p.NodeSelector))
		for _, terms := range slices.Concat([][]NodeTerm{p.Affinity}, p.Volumes, p.Devices) {
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

// judgeOn reports how selectors, taints, volumes and devices admit the kind to a node's class. The
// result is cached, except for a kind that was added after classify.
func (k *kind) judgeOn(n *nodeState) verdictOnce {
	if k.static != nil && k.static[n.class] != 0 {
		return k.static[n.class]
	}
	v, at := fits, n.place()
	switch {
	case !fitsSelector(k.pod, &at):
		v = fitsNot
	case mismatch(k.pod, at, n.taintsWhenReady()) != "":
		v = fitsSelectors
	}
	if k.static != nil {
		k.static[n.class] = v
	}
	return v
}

// fitsSelector reports whether the pod's node selector and required node affinity
// admit a node.
func fitsSelector(pod *Pod, at *place) bool {
	// All must hold, so the map's order has no effect.
	for k, want := range pod.NodeSelector {
		if have, ok := at.value(k); !ok || have != want {
			return false
		}
	}
	return len(pod.Affinity) == 0 || fitsAny(pod.Affinity, at)
}

func fitsAny(terms []NodeTerm, at *place) bool {
	return slices.ContainsFunc(terms, func(t NodeTerm) bool { return fitsTerm(t, at) })
}

const labelsMismatch = "labels do not match"

// AllocatesClaims begins labels that exist in a Snapshot only. A node or template has one with the value "no" if its
// devices do not satisfy a pod's resource claims.
const AllocatesClaims = "gpuscale.io/allocates-claims."

// mismatch returns what keeps a pod from a node with these taints, empty for nothing.
func mismatch(pod *Pod, at place, taints []Taint) string {
	if t, out := untolerated(pod, taints); out {
		return "taint " + t.Key + " is not tolerated"
	}
	if !fitsSelector(pod, &at) {
		return labelsMismatch
	}
	for _, terms := range pod.Devices {
		if !fitsAny(terms, &at) {
			if text := termsText(terms); !strings.HasPrefix(text, AllocatesClaims) {
				return labelsMismatch + " (" + text + ")"
			}
			return "devices do not satisfy the pod's resource claims"
		}
	}
	for _, terms := range pod.Volumes {
		if !fitsAny(terms, &at) {
			return volumeConflict + " (" + termsText(terms) + ")"
		}
	}
	return ""
}

const volumeConflict = "volume node affinity conflict"

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
func fitsTerm(term NodeTerm, at *place) bool {
	return len(term) > 0 && !slices.ContainsFunc(term, func(r NodeRequirement) bool { return !fitsRequirement(r, at) })
}

func fitsRequirement(r NodeRequirement, at *place) bool {
	have, ok := at.value(r.Key)
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
// volumes let it onto a node with this name, empty for a new one, and these labels and
// taints, resources aside.
func Admits(pod Pod, node string, labels map[string]string, taints []Taint) bool {
	return mismatch(&pod, place{name: node, labels: labels}, taints) == ""
}

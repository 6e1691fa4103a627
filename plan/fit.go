package plan

import "strconv"

// fitsLabels reports whether the pod's node selector and required node affinity
// admit a node with these labels.
func fitsLabels(pod *Pod, labels map[string]string) bool {
	// All must hold, so the map's order has no effect.
	for k, want := range pod.NodeSelector {
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	if len(pod.Affinity) == 0 {
		return true
	}
	for _, term := range pod.Affinity {
		if fitsTerm(term, labels) {
			return true
		}
	}
	return false
}

// fitsTerm reports whether all requirements hold. An empty term matches
// nothing, as in Kubernetes.
func fitsTerm(term NodeTerm, labels map[string]string) bool {
	for _, r := range term {
		if !fitsRequirement(r, labels) {
			return false
		}
	}
	return len(term) > 0
}

func fitsRequirement(r NodeRequirement, labels map[string]string) bool {
	have, ok := labels[r.Key]
	in := false
	for _, v := range r.Values {
		in = in || v == have
	}
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
		if o.Operator == "Exists" || o.Value == t.Value {
			return true
		}
	}
	return false
}

// Admits reports whether a pod's node selector, required affinity and
// tolerations let it onto a node with these labels and taints, resources aside.
func Admits(pod Pod, labels map[string]string, taints []Taint) bool {
	_, out := untolerated(&pod, taints)
	return !out && fitsLabels(&pod, labels)
}

package doctor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// late is how long after its deadline an operation is over.
const late = 5 * time.Minute

func orphanCordon(l *look) {
	nodes := l.nodes()
	poolsKnown := l.use(Pools)
	autoscalers := l.programs("autoscaler")
	pools := map[string]*v1alpha1.GPUNodePool{}
	for i := range l.f.Pools {
		pools[l.f.Pools[i].Name] = &l.f.Pools[i]
	}
	for i := range nodes {
		n := &nodes[i]
		why, marks := l.orphan(n, pools, poolsKnown, autoscalers)
		if why == "" {
			continue
		}
		words := []string{"annotate", "node", n.Name}
		for _, m := range marks {
			words = append(words, m+"-")
		}
		l.fault(Finding{
			Object: "Node " + n.Name, Seen: "it is cordoned by us (" + named(marks) + "), and " + why,
			Means: "no pod comes there until somebody opens it",
			Fix:   "Make sure that its cards are as they should be (docs/mig.md for a repartition), then take our marks away and open it.",
			Commands: []string{
				l.kubectl(words...), l.kubectl("uncordon", n.Name),
			},
		})
	}
}

// orphan says why a cordon of ours has nothing behind it, and the annotations that
// stand for it; empty where it has, or where there is none.
func (l *look) orphan(n *corev1.Node, pools map[string]*v1alpha1.GPUNodePool, poolsKnown bool, autoscalers []Program) (why string, marks []string) {
	if !n.Spec.Unschedulable {
		return "", nil
	}
	for _, m := range []string{v1alpha1.CordonAnnotation, v1alpha1.DrainAnnotation, annotationRecord} {
		if _, ok := n.Annotations[m]; ok {
			marks = append(marks, m)
		}
	}
	if len(marks) == 0 {
		return "", nil
	}
	if r, ours, err := recordOf(n); ours {
		switch {
		case err != nil:
			return "its record " + annotationRecord + " is not one: " + err.Error(), marks
		case r.Undo != nil && r.Undo.Attempts >= maxUndo:
			return fmt.Sprintf("going back to the layout from before was given up after %d attempts", r.Undo.Attempts), marks
		case r.Undo == nil && l.f.Now.After(r.Deadline.Add(late)):
			return "its repartition was to end at " + r.Deadline.UTC().Format(time.RFC3339), marks
		}
	}
	if d, ours, err := v1alpha1.DrainOf(n); ours {
		switch {
		case err != nil:
			return "its record of a drain is not one", marks
		case l.f.Now.After(d.Deadline.Add(late)):
			return "its drain was to end at " + d.Deadline.UTC().Format(time.RFC3339), marks
		}
	}
	pool := n.Labels[v1alpha1.NodePoolLabel]
	switch {
	case poolsKnown && pool == "":
		return "it is of no GPUNodePool, so that nobody comes back to it", marks
	case poolsKnown && pools[pool] == nil:
		return "its GPUNodePool " + pool + " is not there, so that nobody comes back to it", marks
	case len(autoscalers) == 0 && l.has(Deployments):
		return "there is no autoscaler of gpuscale", marks
	}
	return "", nil
}

// forgotten is after how long a cordon of somebody else's is worth a word.
const forgotten = 24 * time.Hour

// cordonForgotten: cards behind a cordon cost as much as others, and nobody of ours
// opens what somebody else has closed.
func cordonForgotten(l *look) {
	nodes := l.nodes()
	for i := range nodes {
		n := &nodes[i]
		if !n.Spec.Unschedulable || !isGPU(n) || ourCordon(n) {
			continue
		}
		since, known := cordonedSince(n)
		if !known || l.f.Now.Sub(since) < forgotten {
			continue
		}
		l.warn(Finding{
			Object: "Node " + n.Name, Seen: "it is cordoned since " + since.UTC().Format(time.RFC3339) + ", and not by us",
			Means:    "no pod comes to its cards, and they cost all the same; we open only what we have closed",
			Fix:      "Open it, or give it back, unless somebody still works on it.",
			Commands: []string{l.kubectl("uncordon", n.Name)},
		})
	}
}

// ourCordon reports whether a node has a mark of ours.
func ourCordon(n *corev1.Node) bool {
	for _, m := range []string{v1alpha1.CordonAnnotation, v1alpha1.DrainAnnotation, annotationRecord} {
		if _, ok := n.Annotations[m]; ok {
			return true
		}
	}
	return false
}

// cordonedSince says when a node was cordoned: by the taint that Kubernetes puts there,
// or by who has last written the field. known is false where neither has a time.
func cordonedSince(n *corev1.Node) (since time.Time, known bool) {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
			return t.TimeAdded.Time, true
		}
	}
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.FieldsV1 != nil && strings.Contains(string(m.FieldsV1.Raw), `"f:unschedulable"`) && m.Time.After(since) {
			since, known = m.Time.Time, true
		}
	}
	return since, known
}

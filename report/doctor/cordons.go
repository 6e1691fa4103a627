package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// late is how long after its deadline an operation counts as over.
const late = 5 * time.Minute

func orphanCordon(l *look) {
	// It may run in another namespace than the given one, or outside the cluster.
	none := len(l.programs("autoscaler")) == 0 && l.Namespace == "" && !l.scraped("autoscaler")
	for _, n := range Nodes.in(l) {
		marks := marksOf(n)
		if !n.Spec.Unschedulable || len(marks) == 0 {
			continue
		}
		why, words := orphan(l, n, none), []string{"annotate", "node", n.Name}
		if why == "" {
			continue
		}
		fix, uncordon := "Check the node's GPUs (docs/mig.md if they were being repartitioned), then remove gpuscale's annotations and uncordon the node.", l.kubectl("uncordon", n.Name)
		after := n.DeepCopy()
		if contract.Uncordon(after); after.Spec.Unschedulable {
			fix, uncordon = "Check the node's GPUs (docs/mig.md if they were being repartitioned), then remove gpuscale's annotations. Do not uncordon the node: the operator that upgrades its driver, or NVSentinel, does that.", ""
		}
		notes := slices.Sorted(maps.Keys(n.Annotations)) // annotations that others made about our cordon
		for _, m := range append(marks, slices.DeleteFunc(notes, func(m string) bool { _, stays := after.Annotations[m]; return stays })...) {
			words = append(words, m+"-")
		}
		l.fault("Node "+n.Name, "gpuscale cordoned the node ("+several(marks)+"), and "+why, fix, l.kubectl(words...), uncordon)
	}
}

// marksOf returns our annotations on a node that we have cordoned.
func marksOf(n *corev1.Node) (marks []string) {
	for _, m := range []string{v1alpha1.CordonAnnotation, v1alpha1.DrainAnnotation, contract.RecordAnnotation} {
		if _, ok := n.Annotations[m]; ok {
			marks = append(marks, m)
		}
	}
	return marks
}

// orphan returns why our cordon has no running operation, or "" if it has one.
func orphan(l *look, n *corev1.Node, noAutoscaler bool) string {
	if r, ours, err := contract.RecordOf(n); ours {
		switch {
		case err != nil:
			return "the record of its repartition is invalid: " + err.Error()
		case r.Undo != nil && r.Undo.Attempts >= maxUndo:
			return fmt.Sprintf("the autoscaler gave up restoring its MIG layout after %d attempts", r.Undo.Attempts)
		case r.Undo == nil && l.Now.After(r.Deadline.Add(late)):
			return "its repartition should have ended at " + r.Deadline.UTC().Format(time.RFC3339)
		}
	}
	if drain, ours, err := v1alpha1.DrainOf(n); ours {
		switch {
		case err != nil:
			return "the record of its drain is invalid"
		case l.Now.After(drain.Deadline.Add(late)):
			return "its drain should have ended at " + drain.Deadline.UTC().Format(time.RFC3339)
		}
	}
	pool := n.Labels[v1alpha1.NodePoolLabel]
	switch {
	case pool == "":
		return "it is in no GPUNodePool, so no autoscaler uncordons it"
	case find(Pools.in(l), "", pool) == nil:
		return "its GPUNodePool " + pool + " does not exist, so no autoscaler uncordons it"
	case noAutoscaler:
		return "no gpuscale autoscaler is installed to uncordon it"
	}
	return ""
}

// forgotten is the age after which another program's cordon is reported.
const forgotten = 24 * time.Hour

// cordonForgotten reports cordons that gpuscale does not remove, because it removes only its own. The GPUs of
// such nodes are paid for and unused. The GPU Operator also leaves its cordon after a failed upgrade.
func cordonForgotten(l *look) {
	for _, n := range Nodes.in(l) {
		if !n.Spec.Unschedulable || !isGPU(n) || len(marksOf(n)) > 0 {
			continue
		}
		since, known := cordonedSince(n)
		seen := "the node has been cordoned since " + since.UTC().Format(time.RFC3339) + ", and not by gpuscale"
		label, state := contract.Upgrade(n)
		quarantine, step := contract.Quarantine(n)
		switch {
		case state == contract.UpgradeFailed:
			l.warn("Node "+n.Name, "label "+label+" is "+state+": the upgrade of the driver failed, and its operator leaves the node cordoned",
				"Read the operator's log for the reason. Often a pod still has a GPU: the operator does not evict a pod without a controller, or with an emptyDir (upgradePolicy.podDeletion). End that pod; the second command then starts the upgrade again.",
				podsOn(l.commands, n), l.kubectl("label", "node", n.Name, label+"=upgrade-required", "--overwrite"))
		case !known || l.Now.Sub(since) < forgotten:
		case state != "":
			l.warn("Node "+n.Name, seen+"; label "+label+" is "+state,
				"Do not uncordon the node: the upgrade of its driver is in progress. Check what the upgrade waits for, such as jobs (upgradePolicy.waitForCompletion).", podsOn(l.commands, n))
		case quarantine != "":
			l.warn("Node "+n.Name, seen+"; NVSentinel has quarantined it: label "+quarantine+" is "+step,
				"Repair the fault that the annotation describes: NVSentinel then uncordons the node. If you uncordon it yourself, NVSentinel ends the repair.",
				l.kubectl("get", "node", n.Name, "-o", "jsonpath={.metadata.annotations.quarantineHealthEvent}"))
		default:
			l.warn("Node "+n.Name, seen, "Uncordon the node, or remove it from the cluster, unless it is under maintenance.", l.kubectl("uncordon", n.Name))
		}
	}
}

// cordonedSince returns when a node was cordoned, from Kubernetes' taint or from the last writer of the
// field. known is false if neither has a time.
func cordonedSince(n *corev1.Node) (since time.Time, known bool) {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
			return t.TimeAdded.Time, true
		}
	}
	since = lastWrite(n, "unschedulable")
	return since, !since.IsZero()
}

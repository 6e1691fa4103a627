package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// migLogs writes the commands that show mig-manager's log on a node.
func migLogs(l *look, node string) []string {
	if p := podOn(l, node, "k8s-mig-manager"); p != nil {
		return []string{l.in(p.Namespace, "logs", p.Name, "--all-containers", "--tail=100")}
	}
	return []string{l.kubectl("get", "pods", "-A", "-l", "app=nvidia-mig-manager", "--field-selector", "spec.nodeName="+node)}
}

func migFailed(l *look) {
	for _, n := range Nodes.in(l) {
		r, ours, _ := contract.RecordOf(n)
		if n.Labels[contract.StateLabel] == "failed" {
			add, seen := l.fault, fmt.Sprintf("label %s is failed, and %s is %s", contract.StateLabel, contract.ConfigLabel, n.Labels[contract.ConfigLabel])
			if ours && (r.Undo == nil || r.Undo.Attempts < maxUndo) {
				add, seen = l.warn, seen+"; the autoscaler is restoring the former MIG layout"
			}
			add("Node "+n.Name, seen, "Read mig-manager's log. Usual causes: a process uses a GPU, the GPU does not have a profile, or the GPU needs a reset. mig-manager retries when the label "+contract.ConfigLabel+" changes.",
				migLogs(l, n.Name)...)
			continue
		}
		if answer, err := contract.ParseAnswer(n.Annotations[contract.AgentAnnotation]); err == nil && answer.State == contract.AgentFailed {
			l.fault("Node "+n.Name, fmt.Sprintf("the agent reports a failure in annotation %s: %s", contract.AgentAnnotation, answer.Message),
				"See docs/mig.md, \"What can go wrong\", for this message.", l.kubectl("describe", "node", n.Name))
		}
	}
}

// maxUndo is how often the autoscaler tries a rollback before it leaves the node to its operator.
const maxUndo = 5

// wedged is how long mig-manager may take before it counts as stuck.
const wedged = 10 * time.Minute

func migWedged(l *look) {
	for _, n := range Nodes.in(l) {
		if !partitioning(n) {
			continue
		}
		state := n.Labels[contract.StateLabel]
		since, known := pendingSince(n)
		if !known {
			l.cannot("since when label %s has been %s on node %s is not recorded", contract.StateLabel, state, n.Name)
			continue
		}
		took := l.Now.Sub(since)
		if r, ours, err := contract.RecordOf(n); took < wedged || ours && err == nil && l.Now.Before(r.Deadline) {
			continue // the autoscaler's own timeout may not have passed
		}
		commands := migLogs(l, n.Name)
		if p := podOn(l, n.Name, "k8s-mig-manager"); p != nil {
			commands = append(commands, l.in(p.Namespace, "delete", "pod", p.Name))
		}
		l.fault("Node "+n.Name, fmt.Sprintf("label %s has been %s for at least %s", contract.StateLabel, state, took.Round(time.Minute)),
			"Read mig-manager's log: usually it waits for a process that uses a GPU and does not stop. End that process, then delete mig-manager's pod: it reads the label again when it starts.", commands...)
	}
}

// pendingSince returns the latest time at which mig-manager can have started: from our own record, or from
// the last write by the label's field manager.
func pendingSince(n *corev1.Node) (time.Time, bool) {
	if r, ours, err := contract.RecordOf(n); ours && err == nil && r.Config != "" && r.Config == n.Labels[contract.ConfigLabel] && !r.Started.IsZero() {
		return r.Started, true
	}
	last := lastWrite(n, contract.StateLabel)
	return last, !last.IsZero()
}

// lastWrite returns when a field or label of a node was written last, from its managed fields.
func lastWrite(n *corev1.Node, field string) (last time.Time) {
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.Subresource == "" && m.Time.After(last) && owns(m, field) {
			last = m.Time.Time
		}
	}
	return last
}

func owns(m metav1.ManagedFieldsEntry, field string) bool {
	return m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+field+`"`))
}

// labelStrategy is the label with the device plugin's MIG strategy, which decides the names of MIG resources.
const labelStrategy = "nvidia.com/mig.strategy"

// migStrategy reports pools whose GPUs are to be repartitioned while the device plugin offers MIG instances
// under other resource names than the planner expects.
func migStrategy(l *look) {
	pools := map[string]bool{}
	for _, p := range allPools(l) {
		pools[p.Name] = p.Spec.MIG != nil && p.Spec.MIG.Actuator != "none"
	}
	for _, n := range Nodes.in(l) {
		pool, strategy := n.Labels[v1alpha1.NodePoolLabel], n.Labels[labelStrategy]
		if !pools[pool] || strategy != "single" && strategy != "none" {
			continue
		}
		l.fault("Node "+n.Name, fmt.Sprintf("label %s is %s, but its GPUNodePool %s has spec.mig, which needs mixed", labelStrategy, strategy, pool),
			"Set the strategy to mixed (spec.mig.strategy of the GPU Operator's ClusterPolicy, or migStrategy of the device plugin's chart), or remove spec.mig from the pool.", mixed(l, n))
	}
}

// mixed writes the command that makes a node offer its MIG instances under their profile names, or one that
// shows where the strategy is set.
func mixed(l *look, n *corev1.Node) string {
	for _, d := range DaemonSets.in(l) {
		if runs(d.Spec.Template.Spec, "k8s-device-plugin") {
			return cmp.Or(patchOperator(l, d, `{"mig":{"strategy":"mixed"}}`),
				l.in(d.Namespace, "get", "daemonset", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].env} {.spec.template.spec.containers[*].args}"))
		}
	}
	return l.kubectl("get", "node", n.Name, "-L", labelStrategy)
}

package observe

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

const gpuPresentLabel = "nvidia.com/gpu.present"

// lifecycleTaints say what Ready and Cordoned say too, and go by themselves.
// Left in, they would make a booting node look useless.
var lifecycleTaints = map[string]bool{
	corev1.TaintNodeNotReady:                         true,
	corev1.TaintNodeUnreachable:                      true,
	corev1.TaintNodeUnschedulable:                    true,
	corev1.TaintNodeNetworkUnavailable:               true,
	"node.cloudprovider.kubernetes.io/uninitialized": true,
}

// gpuNodes returns the names of nodes that are of a pool or have GPUs; others
// are none of our business.
func gpuNodes(nodes []corev1.Node) map[string]bool {
	out := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[v1alpha1.NodePoolLabel] != "" || n.Labels[gpuPresentLabel] == "true" || len(partition.Advertised(n)) > 0 {
			out[n.Name] = true
		}
	}
	return out
}

// nodeInput is all that is known about one node.
type nodeInput struct {
	node    *corev1.Node
	config  partition.Config
	claims  *Claims
	tables  mig.Tables
	models  *models
	known   *knownNodes
	reading *nodeReading // nil: unknown
	bound   []*plan.Pod
	now     time.Time
	pool    string // empty where the label names none that is valid
	keep    bool   // its pool gives no node back
}

func (o *Observer) node(in nodeInput) plan.Node {
	n, known := in.node, in.known.of(in.claims, in.node)
	out := known.says.Node
	out.Pool = in.pool
	out.Cordoned = out.Cordoned || o.noticed(n) || o.going(n)
	out.NoScaleDown = out.NoScaleDown || in.keep
	out.LeavesAt = o.leavesAt(n)
	// A node whose device plugin has not come up shows no card: its pool's
	// template says what it will have. While a card is being cut the plugin
	// pauses, and what the node has is known all the same.
	report := o.reports.of(in)
	if out.Operation == nil && !known.says.devices && !uncut(in) && !cutToNothing(report) {
		return out
	}
	out.Cards = known.keep(o.cards(in, report))
	return out
}

// cordonedBy names what of ours cordoned the node, empty for others or nothing.
func cordonedBy(n *corev1.Node) string {
	if !n.Spec.Unschedulable {
		return ""
	}
	if r, ok, err := partition.RecordOf(n); ok && err == nil && r.Cordoned {
		return r.ID
	}
	return n.Annotations[v1alpha1.CordonAnnotation]
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// offersDevices reports whether the node offers any that are accelerators.
func offersDevices(n *corev1.Node) bool {
	if len(partition.Advertised(n)) > 0 {
		return true
	}
	for name, q := range n.Status.Allocatable {
		if strings.Contains(string(name), "/") && isCard(string(name)) && q.Value() > 0 {
			return true // another vendor's, or a dialect's
		}
	}
	return false
}

// uncut reports whether the node has nothing to offer because its cards are in MIG mode
// and not cut.
func uncut(in nodeInput) bool {
	n := in.node
	if n.Labels[partition.StateLabel] != partition.StateSuccess {
		return false
	}
	layout := configLayout(in.config, n.Labels[partition.ConfigLabel], cardCount(n))
	return layout != nil && len(layout.Resources()) == 0
}

// isCard reports whether an extended resource is an accelerator of any dialect.
func isCard(name string) bool {
	d, err := demandOf(name)
	return err == nil && !d.Zero()
}

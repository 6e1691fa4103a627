package observe

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// lifecycleTaints repeat what Ready and Cordoned state, and are removed by their controllers. With
// them a booting node would look unusable.
var lifecycleTaints = map[string]bool{
	corev1.TaintNodeNotReady:                         true,
	corev1.TaintNodeUnreachable:                      true,
	corev1.TaintNodeUnschedulable:                    true,
	corev1.TaintNodeNetworkUnavailable:               true,
	"node.cloudprovider.kubernetes.io/uninitialized": true,
	"karpenter.sh/unregistered":                      true,
	"node.cluster.x-k8s.io/uninitialized":            true,
}

// startupTaint begins the keys of taints that cluster-autoscaler takes as a pool's startupTaints.
const startupTaint = "startup-taint.cluster-autoscaler.kubernetes.io/"

// starting removes the startup taints of a node, and reports whether there are any: such a node is not
// ready yet, and a pod need not tolerate them.
func starting(taints []plan.Taint, startup []v1alpha1.Taint) (left []plan.Taint, is bool) {
	for _, t := range taints {
		if strings.HasPrefix(t.Key, startupTaint) || slices.Contains(startup, v1alpha1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}) {
			is = true
		} else {
			left = append(left, t)
		}
	}
	return left, is
}

// gpuNodes returns the names of the nodes that belong to a pool or have GPUs.
func gpuNodes(nodes []corev1.Node) map[string]bool {
	out := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		if n.Labels[v1alpha1.NodePoolLabel] != "" || n.Labels[partition.PresentLabel] == "true" || offersDevices(n) {
			out[n.Name] = true
		}
	}
	return out
}

// nodeInput is all input about one node.
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
	facts   *nodeFacts
	pool    string     // empty unless the label names a valid pool
	keep    bool       // its pool is not scaled down
	usual   []plan.GPU // of a new node of its pool; nil without a pool
	startup []v1alpha1.Taint
}

func (o *Observer) node(in nodeInput) plan.Node {
	n := in.node
	in.facts = in.known.of(in.claims, n)
	out := in.facts.Node
	out.Pool = in.pool
	leavesAt, noticed := o.notice(n)
	out.LeavesAt, out.Cordoned = leavesAt, out.Cordoned || noticed || o.going(n)
	out.NoScaleDown = out.NoScaleDown || in.keep
	if left, is := starting(out.Taints, in.startup); is {
		out.Taints, out.Ready = left, false
	}
	// A node whose device plugin is not up yet advertises no GPU; its pool's template describes it.
	// While a GPU is being repartitioned the plugin pauses, and the node's GPUs are known all the
	// same.
	report := o.reported(in)
	if out.Operation == nil && !in.facts.devices && !unpartitioned(in) && !allMIGEmpty(report) {
		return out
	}
	out.GPUs = o.gpus(in, report)
	return out
}

// healthCondition of a Node is False while its exporter finds a GPU sick.
const healthCondition = "GPUHealthy"

// confirmsSick reports whether a second source confirms that a GPU is sick: the node's own condition,
// which admission lets only its exporter write, or that the pod that reports it runs on the node. An
// exporter cannot have another node's GPUs replaced.
func (in nodeInput) confirmsSick(r *gpuReading) bool {
	for _, c := range in.node.Status.Conditions {
		if string(c.Type) == healthCondition && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return slices.ContainsFunc(in.bound, func(p *plan.Pod) bool { return slices.Contains(r.judges, p.Key()) })
}

// cordonedBy returns which gpuscale action cordoned the node, empty for none.
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

// offersDevices reports whether the node advertises any accelerator, of a known dialect or not.
func offersDevices(n *corev1.Node) bool {
	if len(partition.Advertised(n)) > 0 {
		return true
	}
	for name, q := range n.Status.Allocatable {
		if strings.Contains(string(name), "/") && (isGPU(string(name)) || isDevice(string(name))) && q.Value() > 0 {
			return true // another vendor's, or a dialect's
		}
	}
	return false
}

// unpartitioned reports whether the node advertises nothing because its GPUs are in MIG mode
// without instances.
func unpartitioned(in nodeInput) bool {
	n := in.node
	if n.Labels[partition.StateLabel] != partition.StateSuccess {
		return false
	}
	layout := configLayout(in.config, n.Labels[partition.ConfigLabel], gpuCount(n))
	return layout != nil && len(layout.Resources()) == 0
}

// isGPU reports whether an extended resource is an accelerator of any dialect.
func isGPU(name string) bool {
	d, err := demandOf(name)
	return err == nil && !d.Zero()
}

package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube"
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

// startupTaints are prefixes of taint keys. A taint with such a key counts as a startup taint of every pool. They are
// those of cluster-autoscaler (55c37cd, utils/taints) and of the Node Readiness Controller, which Karpenter also has
// (2266468, pkg/scheduling/taints.go).
var startupTaints = []string{
	"startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/", "readiness.k8s.io/",
}

// starting returns the taints without the startup taints, whatever their values, and whether there were any. A node
// with startup taints is not ready yet, and a pod need not tolerate them.
func starting(taints []plan.Taint, startup []v1alpha1.Taint) (left []plan.Taint, is bool) {
	for _, t := range taints {
		if slices.ContainsFunc(startupTaints, func(prefix string) bool { return strings.HasPrefix(t.Key, prefix) }) ||
			slices.ContainsFunc(startup, func(of v1alpha1.Taint) bool { return of.Key == t.Key && of.Effect == t.Effect }) {
			is = true
		} else {
			left = append(left, t)
		}
	}
	return left, is
}

// factsOf reads the Node objects that belong to a pool, have GPUs, or have devices of DRA drivers.
func (o *Observer) factsOf(c *cluster) map[string]*nodeFacts {
	out := map[string]*nodeFacts{}
	o.nodes.begin(c.claims)
	for i := range c.nodes.Items {
		n := &c.nodes.Items[i]
		if c.claimable[n.Name] != nil || n.Labels[v1alpha1.NodePoolLabel] != "" || n.Labels[partition.PresentLabel] == "true" || offersDevices(n) {
			out[n.Name] = o.nodes.get(n, func() nodeFacts { return readNode(c.claims, n) })
		}
	}
	return out
}

// nodeInput is all input about one node.
type nodeInput struct {
	*products
	node     *corev1.Node
	config   partition.Config
	reading  *nodeReading // nil: unknown
	maxAge   time.Duration
	bound    []*plan.Pod
	watching map[string]bool // pods with admin access to the GPUs
	now      time.Time
	facts    *nodeFacts
	pool     *managed // nil unless the label names a valid pool
	ignored  *Ignored
}

// addNodes adds the nodes to an Observation; bound are the pods on each.
func (o *Observer) addNodes(c *cluster, out *Observation, readings *Readings, bound map[string][]*plan.Pod) {
	var rejected []error
	out.Ignored.Nodes = readings.without(c.nodes.Items)
	out.Nodes = make([]plan.Node, 0, len(c.facts))
	kept := map[string]bool{}
	for _, p := range c.objects {
		if v1alpha1.KeepsNode(p) {
			kept[p.Spec.NodeName] = true
		}
	}
	for i := range c.nodes.Items {
		n := &c.nodes.Items[i]
		facts := c.facts[n.Name]
		if facts == nil {
			continue
		}
		by := ""
		switch d := c.claimable[n.Name]; {
		case d != nil && !facts.devices: // no device plugin runs beside the DRA driver
			facts, by = facts.claimed(d), byDRA
		case d == nil && facts.devices:
			by = byPlugin
		}
		in := nodeInput{
			node: n, facts: facts, config: c.config, products: &o.products, reading: readings.node(n.Name, c.now, o.o.MaxAge), maxAge: o.o.MaxAge,
			bound: bound[n.Name], watching: c.watching, now: c.now, pool: o.poolOf(n), ignored: &out.Ignored,
		}
		report, err := reported(in)
		if err != nil {
			rejected = append(rejected, fmt.Errorf("node %s: %w", n.Name, err))
		}
		node := o.node(in, report)
		node.ReadyAt = c.upcoming[n.Name]
		node.Labels = c.network.With(node.Labels, n)
		node.NoScaleDown = node.NoScaleDown || kept[n.Name]
		if by != "" && len(c.claims.classes) > 0 {
			node.Labels = withLabel(node.Labels, offeredBy, by)
		}
		out.Nodes = append(out.Nodes, node)
	}
	maps.DeleteFunc(o.idle, func(_ idleKey, e idleEntry) bool { return c.now.Sub(e.last) > o.o.MaxAge })
	o.warn("MIG layouts", few(rejected))
}

func (o *Observer) node(in nodeInput, report map[int]reportedGPU) plan.Node {
	n := in.node
	out := in.facts.Node
	var startup []v1alpha1.Taint
	if m := in.pool; m != nil {
		out.Pool, startup = m.Name, m.startupTaints()
		out.NoScaleDown = out.NoScaleDown || m.Spec.ScaleDown.Disabled || m.listing.Unnamed || m.failing != nil
	}
	leavesAt, noticed := o.notice(n)
	out.LeavesAt, out.Cordoned = leavesAt, out.Cordoned || noticed || o.going(n)
	out.Drain, out.Operation = begun(out.Drain, out.Operation, in.now)
	if left, is := starting(out.Taints, startup); is {
		out.Taints, out.Ready = left, false
	}
	// A node whose device plugin is not up yet advertises no GPU; its pool's template describes it.
	// While a GPU is being repartitioned the plugin pauses, and the node's GPUs are known all the
	// same.
	if out.Operation == nil && !in.facts.devices && !unpartitioned(in) && !allMIGEmpty(report) {
		return out
	}
	out.GPUs = o.gpus(in, report)
	return out
}

// withLabel returns labels with one more. The given ones are not written to.
func withLabel(labels map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	maps.Copy(out, labels)
	return out
}

// claimed returns the facts of a node with the devices of a DRA driver. Where feature discovery does not label the
// node, as with the GPU Operator's GPUCluster, the product is the one that the driver states.
func (f *nodeFacts) claimed(d *claimable) *nodeFacts {
	out := *f
	out.devices, out.Allocatable, out.gpus = true, &d.Demand, len(d.gpus)
	if len(d.divides) > 0 {
		out.byClaim = d
	}
	out.instances = map[string]int64{}
	for _, of := range d.MIG {
		out.instances[mig.ResourceName(of.Name)] += int64(of.Count)
	}
	if _, labelled := out.Labels[partition.ProductLabel]; !labelled && d.product != "" {
		out.Labels = withLabel(f.Labels, partition.ProductLabel, productLabel(d.product))
	}
	return &out
}

// clockSkew is the difference between the clocks of two replicas that is tolerated.
const clockSkew = time.Minute

// begun returns a node's drain and operation. One that begins in the future is returned as overdue: a leader whose
// clock was ahead recorded it, and the node would stay cordoned until its deadline.
func begun(d *plan.Draining, o *plan.Operation, now time.Time) (*plan.Draining, *plan.Operation) {
	if d != nil && d.Started.After(now.Add(clockSkew)) {
		d = &plan.Draining{Reason: d.Reason}
	}
	if o != nil && o.Started.After(now.Add(clockSkew)) {
		late := *o
		late.Started, late.Deadline = now.Add(-clockSkew), now.Add(-time.Second)
		o = &late
	}
	return d, o
}

// healthCondition of a Node is False while its exporter finds a GPU sick.
const healthCondition = "GPUHealthy"

// confirmsSick reports whether a second source confirms that a GPU is sick. That is the node's own condition, which
// admission lets only the node's exporter write, or the fact that the reporting pod runs on the node. So an exporter
// cannot have another node's GPUs replaced.
func (in nodeInput) confirmsSick(r *deviceReading) bool {
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
	if r, ok, err := contract.RecordOf(n); ok && err == nil && r.Cordoned {
		return r.ID
	}
	return n.Annotations[v1alpha1.CordonAnnotation]
}

// offersDevices reports whether the node advertises any accelerator, of a known dialect or not.
func offersDevices(n *corev1.Node) bool {
	if len(partition.Advertised(n)) > 0 {
		return true
	}
	for name, q := range n.Status.Allocatable {
		if d, err := demandOf(string(name)); q.Value() > 0 && (err == nil && !d.Zero() || strings.Contains(string(name), "/") && isDevice(string(name))) {
			return true // of another vendor, or of a dialect
		}
	}
	return false
}

// unpartitioned reports whether the node advertises nothing because its GPUs are in MIG mode
// without instances.
func unpartitioned(in nodeInput) bool {
	n := in.node
	if n.Labels[contract.StateLabel] != contract.StateSuccess {
		return false
	}
	layout := in.config.Layout(n.Labels[contract.ConfigLabel], in.facts.count)
	return layout != nil && len(layout.Resources()) == 0
}

// nodeFacts is the content of a Node object alone: independent of clock, configuration and
// provider.
type nodeFacts struct {
	// Node lacks Pool, LeavesAt and GPUs. Other sources may set Cordoned and NoScaleDown too.
	plan.Node
	devices   bool             // it advertises accelerators
	count     int              // number of its GPUs
	most      int              // bound of that number
	gpus      int              // number of GPUs that a DRA driver knows
	byClaim   *claimable       // offer of a DRA driver that creates MIG devices when they are claimed, else nil
	instances map[string]int64 // MIG devices, by resource: those it offers, or with asGPUs those it offers as GPUs
	asGPUs    bool             // it offers MIG devices as GPUs
	shares    int              // shares of each GPU, 0 unless GPUs are given in shares only
	model     string           // of its label, as gpuscale names it; empty for an unknown one
	data      []string         // its labels that mark cached datasets
	// divided is the GPUs that another project's scheduler divides, nil for none.
	divided *demand.Divided
	// report is the agent's annotation. It is parsed once per version; whether it is trusted is
	// decided elsewhere.
	report    contract.Report
	reportErr error
}

func readNode(c *Claims, n *corev1.Node) nodeFacts {
	out := nodeFacts{devices: offersDevices(n), instances: instancesOnly(partition.Advertised(n)), shares: sharesOf(n), Node: plan.Node{
		Name: n.Name, Labels: n.Labels,
		Ready: readyNode(n), Taints: taintsOf(n), Cordoned: n.Spec.Unschedulable,
		CordonedBy:  cordonedBy(n),
		Created:     n.CreationTimestamp.Time,
		CPUMilli:    bounded(*n.Status.Allocatable.Cpu()).MilliValue(),
		MemoryMi:    bounded(*n.Status.Allocatable.Memory()).Value() >> 20,
		Operation:   partition.OperationOf(n),
		NoScaleDown: v1alpha1.ScaleDownDisabled(n),
		Allocatable: offer(n),
		Drain:       draining(n),
		SoftTainted: v1alpha1.SoftTainted(n),
		UID:         string(n.UID),
		Others:      c.others(n.Status.Allocatable),
	}}
	if profile := profileAsGPU(n); profile != "" {
		out.asGPUs, out.instances = true, map[string]int64{mig.ResourceName(profile): partition.Advertised(n)[partition.GPUResource]}
	}
	out.data = dataOf(n.Labels)
	out.HoldsData = len(out.data) > 0
	out.count, out.most = gpuCounts(n)
	model, _ := gpu.ParseProduct(n.Labels[partition.ProductLabel])
	out.model = model.Name
	if d, ok := demand.FromNode(kube.Extended(n.Status.Allocatable), n.Labels, n.Annotations); ok {
		out.divide(d)
	}
	if text := n.Annotations[contract.LayoutAnnotation]; text != "" {
		out.report, out.reportErr = contract.ParseReport(text)
	}
	return out
}

func readyNode(n *corev1.Node) bool { return kube.NodeReady(n) && n.DeletionTimestamp == nil }

// taintsOf returns the taints of a node, without those that repeat its state.
func taintsOf(n *corev1.Node) (out []plan.Taint) {
	for _, t := range n.Spec.Taints {
		if !lifecycleTaints[t.Key] && t.Key != v1alpha1.EmptyTaint {
			out = append(out, plan.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

// draining returns the drain under way on a node, nil for none. An unreadable drain has no
// deadline; it is overdue and ends.
func draining(n *corev1.Node) *plan.Draining {
	d, ok, err := v1alpha1.DrainOf(n)
	if !ok {
		return nil
	}
	out := plan.Draining{Reason: plan.Reason(d.Reason)}
	if out.Reason != plan.NodeSick && out.Reason != plan.NodeInterrupted && out.Reason != plan.NodeEmpty {
		out.Reason = plan.NodeUnderused // the least strict reason
	}
	if err == nil {
		out.Started, out.Deadline = d.Started, d.Deadline
	}
	return &out
}

// offer is the node's allocatable devices, allocated or not. It is nil where a resource counts parts of GPUs: the GPUs
// themselves then say more than the resource.
func offer(n *corev1.Node) *demand.Demand {
	list := map[string]int64{}
	for name, amount := range n.Status.Allocatable {
		switch one, err := demandOf(string(name)); {
		case one.Fraction.Shares(): // no whole GPU, and counted by Others
		case err != nil && !strings.HasPrefix(string(name), "nvidia.com/"): // a device of unknown size is no whole GPU
		case err != nil || one.Fraction != nil:
			return nil
		default:
			list[string(name)] = max(amount.Value(), 0)
		}
	}
	all, err := demand.FromResources(list)
	if err != nil { // GPUs of two vendors: the planner knows no such node
		return nil
	}
	return &all
}

// spread distributes MIG devices, by resource, evenly over GPUs; nil where they do not fit. The result is one possible
// layout: the real one is as unknown as the allocations.
func spread(offered map[string]int64, gpus []plan.GPU, tables mig.Tables) []mig.Layout {
	if len(offered) == 0 || len(gpus) == 0 {
		return nil
	}
	left := maps.Clone(offered)
	out := make([]mig.Layout, len(gpus))
	for i := range gpus {
		table, ok := tables.ForModel(gpus[i].Model.Name)
		if !ok {
			return nil
		}
		for _, resource := range slices.Sorted(maps.Keys(left)) {
			name, _ := mig.ProfileOfResource(resource)
			profile, ok := table.Exact(name)
			// Each GPU gets its share of what is left, so that equal GPUs stay equal.
			for share := (left[resource] + int64(len(gpus)-i) - 1) / int64(len(gpus)-i); ok && share > 0; share-- {
				next, fits := table.Arrange(nil, append(mig.Counts(out[i]), mig.Count{Profile: profile, N: 1}))
				if !fits {
					break
				}
				out[i] = next
				left[resource]--
			}
		}
	}
	for _, n := range left {
		if n > 0 {
			return nil
		}
	}
	return out
}

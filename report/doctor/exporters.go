package doctor

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Node labels of GPU feature discovery (GFD) and the GPU Operator.
const (
	labelPresent    = "nvidia.com/gpu.present"
	labelProduct    = "nvidia.com/gpu.product"
	labelDeploy     = "nvidia.com/gpu.deploy." // followed by a component's name
	labelDeployDCGM = labelDeploy + "dcgm-exporter"
)

// isGPU reports whether a node has NVIDIA GPUs that pods can get. It excludes GPUs that the GPU Operator
// gives to virtual machines, and nodes that it must leave alone. It also excludes nodes that stand for
// another cluster or a cloud's service, since they run no DaemonSet.
func isGPU(n *corev1.Node) bool {
	if n.Labels["type"] == "virtual-kubelet" {
		return false
	}
	return gpus(n) > 0 || n.Labels[labelPresent] == "true" && n.Labels[labelDeploy+"sandbox-validator"] == "" && n.Labels[labelDeploy+"operands"] != "false"
}

// gpus counts the NVIDIA devices of a node over all its resources.
func gpus(n *corev1.Node) int64 {
	var sum int64
	for name, q := range n.Status.Allocatable {
		if isGPUResource(string(name)) {
			sum += q.Value()
		}
	}
	return sum
}

// changing reports whether mig-manager or a driver upgrade is at work on a node. The exporter and the device
// plugin are rightly absent then.
func changing(n *corev1.Node) bool {
	for label, value := range n.Labels {
		if strings.HasPrefix(label, labelDeploy) && strings.HasSuffix(value, driverUpgrade) {
			return true
		}
	}
	_, state := contract.Upgrade(n)
	return state == "pod-restart-required" || state == "validation-required" || partitioning(n)
}

// driverUpgrade is the suffix of a component's label value while the GPU Operator frees the GPUs for another
// driver. The suffix is gone again while that driver is compiled.
const driverUpgrade = "paused-for-driver-upgrade"

// partitioning reports whether mig-manager is at work on a node.
func partitioning(n *corev1.Node) bool {
	state := n.Labels[contract.StateLabel]
	return state == contract.StatePending || state == "rebooting"
}

// byNode returns the values of an answer by its label node.
func byNode(v []sample) map[string]float64 {
	out := make(map[string]float64, len(v))
	for _, s := range v {
		out[s.Labels.Get("node")] = s.Value
	}
	return out
}

// exporting is what is known of exporters: the nodes where ours are ready, and the series of each node.
type exporting struct {
	ours            []Program
	ready           map[string]bool
	exported, stale map[string]float64
	scraped         bool // Prometheus has series of at least one node
}

func exporterMissing(l *look) {
	e := exporting{ours: l.programs("exporter"), ready: map[string]bool{}, exported: byNode(l.answers(GPUNodes)), stale: byNode(l.answers(SamplesOld))}
	e.scraped = l.has(GPUNodes) && len(e.exported) > 0
	if len(e.ours) == 0 && l.has(DaemonSets) && len(e.exported) == 0 {
		if l.has(GPUNodes) {
			l.skip("no exporter of gpuscale was found")
		}
		return
	}
	for _, p := range Pods.in(l) {
		if isProgram("exporter", p.Labels, p.Spec) && p.Spec.NodeName != "" {
			e.ready[p.Spec.NodeName] = e.ready[p.Spec.NodeName] || kube.PodReady(p)
		}
	}
	for _, n := range Nodes.in(l) {
		if isGPU(n) && kube.NodeReady(n) && !changing(n) {
			checkNode(l, n, e)
		}
	}
}

// settle is the age of a node after which a missing component is a fault.
const settle = 10 * time.Minute

// nodeLacks reports that a node lacks something. It is only a warning while the node is new, since drivers
// and plugins take minutes to start.
func nodeLacks(l *look, n *corev1.Node, seen, fix string, commands ...string) {
	add := l.fault
	if age := l.Now.Sub(n.CreationTimestamp.Time); age < settle {
		add, seen = l.warn, seen+fmt.Sprintf(" (the node is %s old and may still be starting)", max(age, 0).Round(time.Second))
	}
	add("Node "+n.Name, seen, fix, commands...)
}

// checkNode checks one node. Series show that some exporter runs there, with or without a pod. A ready pod
// does not show that there are series.
func checkNode(l *look, n *corev1.Node, e exporting) {
	_, has := e.exported[n.Name]
	isReady, hasPod := e.ready[n.Name]
	home, selector := "", ""
	if len(e.ours) > 0 {
		home, selector = e.ours[0].Namespace, e.ours[0].PodLabels[labelName]
	}
	show := l.in(home, "get", "pods", "-l", labelName+"="+selector, "--field-selector", "spec.nodeName="+n.Name, "-o", "wide")
	log := exporterLog(l, n.Name)
	label, off := labelDeployDCGM, n.Labels[labelDeployDCGM]
	if dra := n.Labels[labelDeployDCGM+"-dra"]; off == "" && dra != "" { // the GPU Operator with DRA
		label, off = label+"-dra", dra
	}
	alone := n.Labels[labelDeploy+"operands"] == "false"
	switch age, old := e.stale[n.Name]; {
	case old:
		nodeLacks(l, n, fmt.Sprintf("the values of its GPUs are %s old (gpu_sample_age_seconds)", whole(age)), "Check whether nvidia-smi answers on the node, and read the log of the exporter's pod there.", show, log)
	case has:
	case off == "false" || off == "paused-for-mig-change":
		nodeLacks(l, n, "label "+label+" is "+off+": it keeps gpuscale's exporter away too, and no repartition is in progress",
			"Remove the label, or set it to true.", l.kubectl("label", "node", n.Name, label+"-"))
	case alone && !hasPod:
		nodeLacks(l, n, "label "+labelDeploy+"operands is false: it keeps gpuscale's exporter away too, although status.allocatable has GPUs",
			"Remove the label, or select the node with the chart's exporter.affinity, which replaces the default.", l.kubectl("label", "node", n.Name, labelDeploy+"operands-"))
	case !l.has(Pods) && !e.scraped, l.has(Pods) && isReady && !e.scraped: // no series of any node: scrape-missing reports it
	case !l.has(Pods):
		nodeLacks(l, n, "Prometheus has no gpu_info of this node", "Check whether an exporter runs on the node and whether Prometheus scrapes it.", show)
	case !hasPod:
		present := ""
		if n.Labels[labelPresent] != "true" {
			present = l.kubectl("label", "node", n.Name, labelPresent+"=true")
		}
		nodeLacks(l, n, "no exporter pod runs on the node",
			"The exporter runs on nodes with the label "+labelPresent+"=true (or NFD's pci-10de.present): label the node, or select it with the chart's exporter.affinity. If the label is there, add the node's taints to exporter.tolerations.",
			present, l.kubectl("get", "node", n.Name, "-o", "jsonpath={.spec.taints}"))
	case !isReady:
		nodeLacks(l, n, "the exporter pod on the node is not ready"+notReady(l, "exporter", n.Name), "Read the pod's log.", show, log)
	default:
		nodeLacks(l, n, "the exporter pod is ready, but Prometheus has no gpu_info of this node",
			"Prometheus scrapes other exporters. Check whether its page /targets lists this one, and whether a NetworkPolicy or a firewall blocks the scrape.", show)
	}
}

// exporterLog writes the command that shows the log of the exporter's pod on a node, or "" if no pod is known.
func exporterLog(l *look, node string) string {
	p := the(Pods.in(l), func(p *corev1.Pod) bool { return p.Spec.NodeName == node && isProgram("exporter", p.Labels, p.Spec) })
	if p == nil {
		return ""
	}
	return l.in((*p).Namespace, "logs", (*p).Name, "--tail=50")
}

// notReady returns why a program's pods are not ready, on a node or (empty) on any node. A pod whose image
// could not be pulled has no log.
func notReady(l *look, program, node string) string {
	for _, p := range Pods.in(l) {
		if !l.here(p.Namespace) || !isProgram(program, p.Labels, p.Spec) || node != "" && p.Spec.NodeName != node || kube.PodReady(p) {
			continue
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return strings.TrimSuffix(fmt.Sprintf(": %s: %s", w.Reason, w.Message), ": ")
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return fmt.Sprintf(": %s: %s", c.Reason, c.Message)
			}
		}
	}
	return ""
}

// whole formats seconds in a readable unit without fractions.
func whole(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 1e9 {
		return "unknown"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func twoExporters(l *look) {
	ours, both, remove := map[string]bool{}, map[string][]string{}, map[string]string{} // nodes; nodes of each other exporter; how to remove that exporter
	for _, p := range Pods.in(l) {
		if isProgram("exporter", p.Labels, p.Spec) {
			ours[p.Spec.NodeName] = true
		}
	}
	for _, p := range Pods.in(l) {
		if p.Spec.NodeName == "" || !ours[p.Spec.NodeName] || isProgram("exporter", p.Labels, p.Spec) || !runs(p.Spec, "dcgm-exporter") {
			continue
		}
		kind, name := "Pod", p.Name
		for _, o := range p.OwnerReferences {
			kind, name = o.Kind, o.Name
		}
		object := kind + " " + p.Namespace + "/" + name
		both[object] = append(both[object], p.Spec.NodeName)
		remove[object] = l.in(p.Namespace, "delete", strings.ToLower(kind), name)
		d := find(DaemonSets.in(l), p.Namespace, name)
		if d != nil && kind == "DaemonSet" && (p.Namespace == "gke-managed-system" || len(d.OwnerReferences) > 0) { // its owner would create it again
			remove[object] = patchOperator(l, d, `{"dcgmExporter":{"enabled":false}}`)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(both)) {
		slices.Sort(both[object])
		l.warn(object, "dcgm-exporter and gpuscale's exporter both run on these nodes: "+several(slices.Compact(both[object])),
			"Remove dcgm-exporter where it comes from: the GPU Operator's ClusterPolicy or GPUCluster, GKE's DCGM metrics, the CloudWatch add-on of EKS (dcgmExporter.enabled), or its own DaemonSet. Do not set the label "+labelDeployDCGM+"=false: it removes gpuscale's exporter too.", remove[object])
	}
}

// patchOperator writes the command that changes the spec of the GPU Operator's object that made a DaemonSet: a
// ClusterPolicy (device plugin) or a GPUCluster (DRA). It returns "" if neither made it.
func patchOperator(l *look, d *daemonSet, spec string) string {
	resources := map[string]string{"ClusterPolicy": "clusterpolicies.nvidia.com", "GPUCluster": "gpuclusters.nvidia.com"}
	for _, by := range d.OwnerReferences {
		if resource := resources[by.Kind]; resource != "" {
			return l.patch("", resource, by.Name, `{"spec":`+spec+`}`)
		}
	}
	return ""
}

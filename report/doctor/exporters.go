package doctor

import (
	"cmp"
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

// Labels of GFD and the GPU Operator about a node's GPUs.
const (
	labelPresent    = "nvidia.com/gpu.present"
	labelProduct    = "nvidia.com/gpu.product"
	labelDeploy     = "nvidia.com/gpu.deploy." // and a component
	labelDeployDCGM = labelDeploy + "dcgm-exporter"
)

// isGPU reports whether a node has GPUs of NVIDIA's that pods can be given: not those that
// the GPU Operator gives to virtual machines, and not those that it is to leave alone.
func isGPU(n *corev1.Node) bool {
	return gpus(n) > 0 || n.Labels[labelPresent] == "true" && n.Labels[labelDeploy+"sandbox-validator"] == "" && n.Labels[labelDeploy+"operands"] != "false"
}

// GPUs counts the NVIDIA devices that a node can give to pods, of all resources.
func gpus(n *corev1.Node) int64 {
	var sum int64
	for name, q := range n.Status.Allocatable {
		if isGPUResource(string(name)) {
			sum += q.Value()
		}
	}
	return sum
}

// changing reports whether mig-manager, or an upgrade of the driver, is at work on a node:
// then the exporter and the device plugin are rightly absent.
func changing(n *corev1.Node) bool {
	for label, value := range n.Labels {
		if strings.HasPrefix(label, labelDeploy) && strings.HasSuffix(value, "paused-for-driver-upgrade") {
			return true
		}
	}
	state := n.Labels[contract.StateLabel]
	return state == contract.StatePending || state == "rebooting"
}

// byNode is an answer with a label node.
func byNode(v []sample) map[string]float64 {
	out := make(map[string]float64, len(v))
	for _, s := range v {
		out[s.Labels.Get("node")] = s.Value
	}
	return out
}

func exporterMissing(l *look) {
	exporters := l.programs("exporter")
	gpuNodes, scraped := l.f.Answers[GPUNodes], l.has(GPUNodes)
	if len(exporters) == 0 && l.has(DaemonSets) && len(gpuNodes) == 0 {
		if scraped {
			l.skip("no exporter of gpuscale was found")
		}
		return
	}
	ready := map[string]bool{} // exporters of ours by node
	for _, p := range l.f.Pods {
		if isProgram("exporter", p.Labels, p.Spec) && p.Spec.NodeName != "" {
			ready[p.Spec.NodeName] = ready[p.Spec.NodeName] || kube.PodReady(p)
		}
	}
	exported, stale := byNode(gpuNodes), byNode(l.f.Answers[SamplesOld])
	for _, n := range l.f.Nodes {
		if !isGPU(n) || !kube.NodeReady(n) || changing(n) {
			continue
		}
		l.exporterOf(n, exporters, ready, exported, stale, scraped && len(gpuNodes) > 0)
	}
}

// settle is the age of a node from which what it lacks is a fault.
const settle = 10 * time.Minute

// nodeLacks reports what a node lacks: a warning while it is new, since drivers and
// plugins take minutes to come up.
func (l *look) nodeLacks(n *corev1.Node, f Finding) {
	f.Object = "Node " + n.Name
	if age := l.f.Now.Sub(n.CreationTimestamp.Time); age < settle {
		f.Seen += fmt.Sprintf(" (the node is %s old: it may be starting)", max(age, 0).Round(time.Second))
		l.warn(f)
		return
	}
	l.fault(f)
}

// exporterOf checks one node. Series show that some exporter runs, with or without a
// pod; a pod shows nothing about series.
func (l *look) exporterOf(n *corev1.Node, exporters []Program, ready map[string]bool, exported, stale map[string]float64, scraped bool) {
	_, has := exported[n.Name]
	isReady, hasPod := ready[n.Name]
	f := Finding{}
	home, selector := "", ""
	if len(exporters) > 0 {
		home, selector = exporters[0].Namespace, exporters[0].PodLabels[labelName]
	}
	look := l.in(home, "get", "pods", "-l", labelName+"="+selector, "--field-selector", "spec.nodeName="+n.Name, "-o", "wide")
	off := n.Labels[labelDeployDCGM]
	switch age, old := stale[n.Name]; {
	case old:
		f.Seen = fmt.Sprintf("its newest value is %s old (gpu_sample_age_seconds)", whole(age))
		f.Fix, f.Commands = "Check whether the driver or DCGM answers there.", []string{look}
	case has:
		return
	case off == "false" || off == "paused-for-mig-change":
		f.Seen = "label " + labelDeployDCGM + " is " + off + ", which keeps our exporter away too, and no repartition is in progress"
		f.Fix = "Remove the label, or set it to true."
		f.Commands = []string{l.kubectl("label", "node", n.Name, labelDeployDCGM+"-")}
	case !l.has(Pods) && !scraped, l.has(Pods) && isReady && !scraped:
		return // series are nowhere: scrape-missing
	case !l.has(Pods):
		f.Seen, f.Fix, f.Commands = "gpu_info has no series of this node", "Check whether an exporter runs there and is scraped.", []string{look}
	case !hasPod:
		f.Seen = "no exporter's pod is on it"
		f.Fix = "The exporter runs on nodes with " + labelPresent + "=true, or NFD's pci-10de.present; label the node, and check which taint it does not tolerate (exporter.tolerations)."
		f.Commands = []string{l.kubectl("get", "node", n.Name, "-o", "jsonpath={.spec.taints}")}
		if n.Labels[labelPresent] != "true" {
			f.Commands = append([]string{l.kubectl("label", "node", n.Name, labelPresent+"=true")}, f.Commands...)
		}
	case !isReady:
		f.Seen, f.Fix = "its exporter's pod is not ready"+l.why("exporter", n.Name), "Check its log."
		f.Commands = []string{look, l.in(home, "logs", "-l", labelName+"="+selector, "--tail=20", "--prefix")}
	default:
		f.Seen = "its exporter is ready, and gpu_info has no series of this node"
		f.Fix = "Prometheus scrapes other exporters: check whether it has this node's target, and whether a NetworkPolicy or firewall is in between."
		f.Commands = []string{look}
	}
	l.nodeLacks(n, f)
}

// why is the reason that a program's pods are not ready, on a node or (empty) on any: a
// pod without its image has no log.
func (l *look) why(program, node string) string {
	if !l.has(Pods) {
		return ""
	}
	for _, p := range l.f.Pods {
		if !l.f.here(p.Namespace) || !isProgram(program, p.Labels, p.Spec) || node != "" && p.Spec.NodeName != node || kube.PodReady(p) {
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

// whole formats seconds in a readable unit.
func whole(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 1e9 {
		return "unknown"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// beside are nodes on which pods of one owner run beside our exporter.
type beside struct {
	namespace, kind, name string
}

func twoExporters(l *look) {
	ours := map[string]bool{}
	for _, p := range l.f.Pods {
		if isProgram("exporter", p.Labels, p.Spec) {
			ours[p.Spec.NodeName] = true
		}
	}
	both := map[beside][]string{} // nodes
	for _, p := range l.f.Pods {
		if p.Spec.NodeName == "" || !ours[p.Spec.NodeName] || isProgram("exporter", p.Labels, p.Spec) || !runs(p.Spec, "dcgm-exporter") {
			continue
		}
		of := beside{p.Namespace, "Pod", p.Name}
		for _, o := range p.OwnerReferences {
			of.kind, of.name = o.Kind, o.Name
		}
		both[of] = append(both[of], p.Spec.NodeName)
	}
	for _, b := range slices.SortedFunc(maps.Keys(both), func(a, b beside) int {
		return cmp.Or(strings.Compare(slices.Min(both[a]), slices.Min(both[b])), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	}) {
		slices.Sort(both[b])
		f := Finding{
			Object: b.kind + " " + b.namespace + "/" + b.name, Seen: "dcgm-exporter runs beside ours on " + several(slices.Compact(both[b])),
			Fix:      "Remove dcgm-exporter: in the GPU Operator's ClusterPolicy or GPUCluster, or its DaemonSet. Do not set the label " + labelDeployDCGM + "=false, which removes ours too.",
			Commands: []string{l.in(b.namespace, "delete", strings.ToLower(b.kind), b.name)},
		}
		if d := find(l.f.DaemonSets, b.namespace, b.name); d != nil && b.kind == "DaemonSet" {
			if resource, name := operatorOf(d); name != "" { // which would recreate it
				f.Commands = []string{l.patch("", resource, name, `{"spec":{"dcgmExporter":{"enabled":false}}}`)}
			}
		}
		l.warn(f)
	}
}

// operatorOf is the object of the GPU Operator that made a DaemonSet, empty for none: a
// ClusterPolicy with the device plugin, a GPUCluster with DRA.
func operatorOf(d *daemonSet) (resource, name string) {
	for _, by := range d.OwnerReferences {
		switch by.Kind {
		case "ClusterPolicy":
			return "clusterpolicies.nvidia.com", by.Name
		case "GPUCluster":
			return "gpuclusters.nvidia.com", by.Name
		}
	}
	return "", ""
}

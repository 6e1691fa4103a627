package doctor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels of GFD and the GPU Operator about a node's GPUs.
const (
	labelPresent    = "nvidia.com/gpu.present"
	labelProduct    = "nvidia.com/gpu.product"
	labelDeployDCGM = "nvidia.com/gpu.deploy.dcgm-exporter"
	labelMIGConfig  = "nvidia.com/mig.config"
	labelMIGState   = "nvidia.com/mig.config.state"
)

// isGPU reports whether a node has GPUs of NVIDIA's that pods can be given.
func isGPU(n *corev1.Node) bool {
	return n.Labels[labelPresent] == "true" || gpus(n) > 0
}

// GPUs counts the NVIDIA devices that a node can give to pods, of all resources.
func gpus(n *corev1.Node) int64 {
	var sum int64
	for name, q := range n.Status.Allocatable {
		if r := string(name); r == "nvidia.com/gpu" || r == "nvidia.com/gpu.shared" || strings.HasPrefix(r, "nvidia.com/mig-") {
			sum += q.Value()
		}
	}
	return sum
}

// changing reports whether mig-manager is at work on a node: then the exporter and the
// device plugin are rightly absent.
func changing(n *corev1.Node) bool {
	state := n.Labels[labelMIGState]
	return state == "pending" || state == "rebooting"
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
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
	gpuNodes, scraped := l.answer(GPUNodes)
	if len(exporters) == 0 && l.has(DaemonSets) && len(gpuNodes) == 0 {
		l.skip("no exporter of gpuscale was found")
		return
	}
	old, _ := l.answer(SamplesOld)
	nodes, pods := l.nodes(), l.pods()
	ready := exporterPods(pods)
	exported, stale := byNode(gpuNodes), byNode(old)
	for _, n := range nodes {
		if !isGPU(n) || !isReady(n) || changing(n) {
			continue
		}
		l.exporterOf(n, exporters, ready, exported, stale, scraped && len(gpuNodes) > 0)
	}
}

// settle is the age of a node from which what it lacks is a fault.
const settle = 10 * time.Minute

// lacks reports what a node lacks: a warning while it is new, since drivers and
// plugins take minutes to come up.
func (l *look) lacks(n *corev1.Node, f Finding) {
	f.Object = "Node " + n.Name
	if age := l.f.Now.Sub(n.CreationTimestamp.Time); age < settle {
		f.Seen += fmt.Sprintf(" (the node is %s old: it may be starting)", max(age, 0).Round(time.Second))
		l.warn(f)
		return
	}
	l.fault(f)
}

// exporterPods are the nodes with an exporter of ours, and whether it is ready.
func exporterPods(pods []*corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, p := range pods {
		if isProgram("exporter", p.Labels, p.Spec) && p.Spec.NodeName != "" {
			out[p.Spec.NodeName] = out[p.Spec.NodeName] || podReady(p)
		}
	}
	return out
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
	if age, is := stale[n.Name]; is {
		f.Seen = fmt.Sprintf("its newest value is %s old (gpu_sample_age_seconds)", whole(age))
		f.Fix, f.Commands = "Check whether the driver or DCGM answers there.", []string{look}
		l.lacks(n, f)
		return
	}
	off := n.Labels[labelDeployDCGM]
	switch {
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
		f.Fix = "The exporter runs on nodes with " + labelPresent + "=true; label the node, and check which taint it does not tolerate (exporter.tolerations)."
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
	l.lacks(n, f)
}

// why is the reason that a program's pods are not ready, on a node or (empty) on any: a
// pod without its image has no log.
func (l *look) why(program, node string) string {
	if !l.has(Pods) {
		return ""
	}
	for _, p := range l.f.Pods {
		if !l.f.here(p.Namespace) || !isProgram(program, p.Labels, p.Spec) || node != "" && p.Spec.NodeName != node || podReady(p) {
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

func twoExporters(l *look) {
	pods := l.pods()
	l.use(DaemonSets)
	ours, theirs := map[string]bool{}, map[string]*corev1.Pod{}
	for _, p := range pods {
		switch {
		case p.Spec.NodeName == "":
		case isProgram("exporter", p.Labels, p.Spec):
			ours[p.Spec.NodeName] = true
		case slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(image(c.Image), "dcgm-exporter") }):
			theirs[p.Spec.NodeName] = p
		}
	}
	var both []string
	for node := range ours {
		if theirs[node] != nil {
			both = append(both, node)
		}
	}
	for _, theirs := range byOwner(both, theirs) {
		l.besides(theirs)
	}
}

// beside are nodes on which pods of one owner run beside our exporter.
type beside struct {
	namespace, kind, name string
	nodes                 []string
}

// byOwner groups nodes by whose dcgm-exporter runs there.
func byOwner(nodes []string, pods map[string]*corev1.Pod) []*beside {
	slices.Sort(nodes)
	var out []*beside
	for _, node := range nodes {
		p := pods[node]
		one := &beside{p.Namespace, "Pod", p.Name, nil}
		for _, o := range p.OwnerReferences {
			one.kind, one.name = o.Kind, o.Name
		}
		at := slices.IndexFunc(out, func(b *beside) bool { return b.namespace == one.namespace && b.kind == one.kind && b.name == one.name })
		if at < 0 {
			out, at = append(out, one), len(out)
		}
		out[at].nodes = append(out[at].nodes, node)
	}
	return out
}

func (l *look) besides(b *beside) {
	f := Finding{
		Object: b.kind + " " + b.namespace + "/" + b.name, Seen: "dcgm-exporter runs beside ours on " + named(b.nodes),
		Fix:      "Remove dcgm-exporter: in the GPU Operator's ClusterPolicy, or its DaemonSet. Do not set the label " + labelDeployDCGM + "=false, which removes ours too.",
		Commands: []string{l.in(b.namespace, "delete", strings.ToLower(b.kind), b.name)},
	}
	for _, d := range l.f.DaemonSets {
		if b.kind != "DaemonSet" || d.Namespace != b.namespace || d.Name != b.name {
			continue
		}
		for _, by := range d.OwnerReferences {
			if by.Kind == "ClusterPolicy" { // which would recreate it
				f.Commands = []string{l.patch("", "clusterpolicies.nvidia.com", by.Name, `{"spec":{"dcgmExporter":{"enabled":false}}}`)}
			}
		}
	}
	l.warn(f)
}

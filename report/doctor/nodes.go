package doctor

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
)

var nodeChecks = []Check{
	{
		ID: "device-plugin-missing", Title: "Nodes with GPUs offer them", Run: devicePluginMissing,
		Fault: "A node is labelled as one with GPUs and has none allocatable.",
		Means: "No pod gets its GPUs; they cost the same.",
		Looks: from(Nodes, ResourceSlices), Also: from(Pods),
	},
	{
		ID: "gfd-labels-missing", Title: "Nodes have a product label", Run: productMissing,
		Fault: "The autoscaler is installed, and a node offers `nvidia.com/*` without the label `nvidia.com/gpu.product`.",
		Means: "The model of its GPUs is unknown: pods that request one are not scheduled there, no layout is planned, quotas by model do not count it.",
		Looks: from(Nodes, Deployments, DaemonSets),
	},
	{
		ID: "mig-config-failed", Title: "Layouts were applied", Run: migFailed,
		Fault: "mig-manager, or our agent, reports that repartitioning a node's GPUs failed.",
		Means: "The node offers another layout than planned, or none.",
		Looks: from(Nodes), Also: from(Pods),
	},
	{
		ID: "mig-manager-wedged", Title: "mig-manager completes", Run: migWedged,
		Fault: "`nvidia.com/mig.config.state` has been `pending` or `rebooting` for more than ten minutes.",
		Means: "The node offers no GPU, and mig-manager does not retry by itself.",
		Looks: from(Nodes), Also: from(Pods),
	},
	{
		ID: "mig-strategy", Title: "GPUs to be repartitioned are offered by profile names", Run: migStrategy,
		Fault: "A node of a pool with `spec.mig` has `nvidia.com/mig.strategy` `single` or `none`.",
		Means: "Its GPUs are not repartitioned, and pods that request `nvidia.com/mig-*` get none there.",
		Looks: from(Nodes, Pools), Also: from(DaemonSets),
	},
	{
		ID: "orphan-cordon", Title: "Cordons of ours have an operation", Run: orphanCordon,
		Fault: "A node is cordoned by us, and the operation is over, given up or unknown.",
		Means: "No pod is scheduled there until it is uncordoned.",
		Looks: from(Nodes, Pools, Deployments, DaemonSets),
	},
	{
		ID: "cordon-forgotten", Title: "No node with GPUs was cordoned and forgotten", Run: cordonForgotten,
		Fault: "A node with GPUs has been cordoned for more than a day, and not by us, or since an upgrade of its driver failed.",
		Means: "Its GPUs get no pods, and they cost the same.",
		Looks: from(Nodes),
	},
	{
		ID: "dra-and-device-plugin", Title: "GPUs are offered in one way", Run: twoWays,
		Fault: "A node's GPUs are in ResourceSlices of `gpu.nvidia.com` and in its allocatable.",
		Means: "Two pods can be given the same GPU.",
		Looks: from(Nodes, ResourceSlices),
	},
}

// driverGPU is the DRA driver for whole GPUs and MIG devices.
const driverGPU = "gpu.nvidia.com"

// claimed returns the nodes whose GPUs are offered by DRA, with the number of devices.
func claimed(l *look) map[string]int {
	out := map[string]int{}
	for _, s := range ResourceSlices.in(l) {
		if s.Spec.Driver == driverGPU && s.Spec.NodeName != nil {
			out[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
	}
	return out
}

// offers reports whether a node has a resource that is a known accelerator.
func offers(n *corev1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if d, err := demand.FromResources(map[string]int64{string(name): 1}); q.Sign() > 0 && err == nil && !d.Zero() {
			return true
		}
	}
	return false
}

// podOn returns a pod on the node that runs the image, or nil.
func podOn(l *look, node, image string) *corev1.Pod {
	if p := the(Pods.in(l), func(p *corev1.Pod) bool { return p.Spec.NodeName == node && runs(p.Spec, image) }); p != nil {
		return *p
	}
	return nil
}

// podsOn writes the command that shows a node's pods.
func podsOn(c commands, n *corev1.Node) string {
	return c.kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+n.Name)
}

const labelDeployPlugin = labelDeploy + "device-plugin"

// upgradeLate is how long a driver upgrade may take. The driver is often compiled on the node.
const upgradeLate = time.Hour

func devicePluginMissing(l *look) {
	claimed := claimed(l)
	for _, n := range Nodes.in(l) {
		_, partitioned := n.Annotations[contract.RecordAnnotation]
		off, why := n.Labels[labelDeployPlugin], ""
		upgrade, _ := contract.Upgrade(n)
		if strings.HasSuffix(off, driverUpgrade) {
			upgrade = labelDeployPlugin
		}
		since := lastWrite(n, upgrade)
		late := changing(n) && upgrade != "" && !since.IsZero() && l.Now.Sub(since) > upgradeLate
		if !isGPU(n) || !kube.NodeReady(n) || offers(n) || gpus(n) > 0 || changing(n) && !late || partitioned || claimed[n.Name] > 0 {
			continue
		}
		fix, command := "Check whether the device plugin runs there (its taints, the label nvidia.com/gpu.deploy.device-plugin) and finds the driver.", ""
		switch p := podOn(l, n.Name, "k8s-device-plugin"); {
		case off == "false":
			why, fix = "; label "+labelDeployPlugin+" is false", "Remove that label: it keeps the device plugin off the node."
			command = l.kubectl("label", "node", n.Name, labelDeployPlugin+"-")
		case off == "paused-for-mig-change":
			why, fix = "; label "+labelDeployPlugin+" is paused-for-mig-change, and mig-manager is at no change", "Set that label to true: mig-manager does not do so after a failed change."
			command = l.kubectl("label", "node", n.Name, labelDeployPlugin+"=true", "--overwrite")
		case late:
			why, fix = fmt.Sprintf("; label %s is %s since %s", upgrade, n.Labels[upgrade], since.UTC().Format(time.RFC3339)), "Check why the GPU Operator does not replace the driver: the log of the driver's pod there; usually a process still uses a GPU."
			command = podsOn(l.commands, n)
		case p != nil:
			why, command = fmt.Sprintf("; the device plugin's pod is %s/%s", p.Namespace, p.Name), l.in(p.Namespace, "logs", p.Name, "--all-containers", "--tail=50")
		default:
			command = podsOn(l.commands, n)
		}
		nodeLacks(l, n, fmt.Sprintf("label %s is true, and allocatable has no nvidia.com/gpu and no nvidia.com/mig-*", labelPresent)+why, fix, command)
	}
}

// productMissing concerns only the autoscaler: the other programs do not read the label.
func productMissing(l *look) {
	planned := len(orSkip(l, l.programs("autoscaler"), "there is no autoscaler of gpuscale, which plans by it")) > 0
	for _, n := range Nodes.in(l) {
		if !planned || gpus(n) == 0 || n.Labels[labelProduct] != "" {
			continue
		}
		nodeLacks(l, n, fmt.Sprintf("allocatable has %d of nvidia.com/*, and there is no label %s", gpus(n), labelProduct),
			"Run GPU feature discovery there (the GPU Operator, or the device plugin's chart with gfd.enabled), or label the node by hand.", podsOn(l.commands, n))
	}
}

func twoWays(l *look) {
	orSkip(l, ResourceSlices.in(l), "no GPUs are offered by DRA")
	claimed := claimed(l)
	for _, n := range Nodes.in(l) {
		if devices := claimed[n.Name]; devices > 0 && gpus(n) > 0 {
			l.fault("Node "+n.Name, fmt.Sprintf("ResourceSlices of %s have %d devices of it, and allocatable has %d of nvidia.com/*", driverGPU, devices, gpus(n)),
				"Choose one for this node: keep the device plugin away (label nvidia.com/gpu.deploy.device-plugin=false with the GPU Operator), or the DRA driver's kubelet plugin (its node selector).",
				l.kubectl("get", "resourceslices", "--field-selector", "spec.nodeName="+n.Name))
		}
	}
}

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
		ID: "device-plugin-missing", Title: "GPU nodes offer their GPUs to pods", Run: devicePluginMissing,
		Fault: "A node is labelled as a GPU node, but its `status.allocatable` has no GPUs.",
		Means: "No pod can get the node's GPUs, which cost the same.",
		Looks: from(Nodes, ResourceSlices), Also: from(Pods),
	},
	{
		ID: "gfd-labels-missing", Title: "GPU nodes have a product label", Run: productMissing,
		Fault: "The autoscaler is installed, and a node offers `nvidia.com/*` resources but does not have the label `nvidia.com/gpu.product`.",
		Means: "The model of the node's GPUs is unknown: pods that request a model are not scheduled there, no MIG layout is planned, and quotas by model do not count the GPUs.",
		Looks: from(Nodes, Deployments, DaemonSets),
	},
	{
		ID: "mig-config-failed", Title: "MIG layouts were applied", Run: migFailed,
		Fault: "mig-manager or gpuscale's agent reports that it could not repartition a node's GPUs.",
		Means: "The node offers another MIG layout than planned, or no GPUs.",
		Looks: from(Nodes), Also: from(Pods),
	},
	{
		ID: "mig-manager-wedged", Title: "mig-manager finishes", Run: migWedged,
		Fault: "`nvidia.com/mig.config.state` has been `pending` or `rebooting` for more than ten minutes.",
		Means: "The node offers no GPUs, and mig-manager does not retry by itself.",
		Looks: from(Nodes), Also: from(Pods),
	},
	{
		ID: "mig-strategy", Title: "Nodes offer MIG devices by profile", Run: migStrategy,
		Fault: "The label `nvidia.com/mig.strategy` is `single` or `none` on a node of a GPUNodePool with `spec.mig`.",
		Means: "The node's GPUs are not repartitioned, and pods that request `nvidia.com/mig-*` are not scheduled there.",
		Looks: from(Nodes, Pools), Also: from(DaemonSets),
	},
	{
		ID: "orphan-cordon", Title: "Nodes that gpuscale cordoned have an operation", Run: orphanCordon,
		Fault: "gpuscale cordoned a node for an operation that is over, was given up or is unknown.",
		Means: "No pod is scheduled on the node until you uncordon it.",
		Looks: from(Nodes, Pools, Deployments, DaemonSets), May: from(Builds),
	},
	{
		ID: "cordon-forgotten", Title: "No GPU node was cordoned and forgotten", Run: cordonForgotten,
		Fault: "A GPU node has been cordoned for more than a day, and not by gpuscale; or it is cordoned because the upgrade of its driver failed.",
		Means: "The node's GPUs get no new pods, and cost the same.",
		Looks: from(Nodes),
	},
	{
		ID: "dra-and-device-plugin", Title: "Each node offers its GPUs in one way", Run: twoWays,
		Fault: "A node offers its GPUs twice: in ResourceSlices of `gpu.nvidia.com` (DRA) and in `status.allocatable` (device plugin).",
		Means: "Two pods can get the same GPU.",
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
		fix, command := "Check whether the device plugin runs on the node and finds the driver. A taint, or the label nvidia.com/gpu.deploy.device-plugin, can keep it away.", ""
		switch p := podOn(l, n.Name, "k8s-device-plugin"); {
		case off == "false":
			why, fix = "; label "+labelDeployPlugin+" is false", "Remove that label: it keeps the device plugin off the node."
			command = l.kubectl("label", "node", n.Name, labelDeployPlugin+"-")
		case off == "paused-for-mig-change":
			why, fix = "; label "+labelDeployPlugin+" is paused-for-mig-change, but mig-manager is changing nothing", "Set that label to true: mig-manager does not reset it after a failed change."
			command = l.kubectl("label", "node", n.Name, labelDeployPlugin+"=true", "--overwrite")
		case late:
			why, fix = fmt.Sprintf("; label %s has been %s since %s", upgrade, n.Labels[upgrade], since.UTC().Format(time.RFC3339)), "The upgrade of the driver does not finish: read the log of the driver's pod on the node. Usually a process still uses a GPU."
			command = podsOn(l.commands, n)
		case p != nil:
			why, command = fmt.Sprintf("; the device plugin's pod is %s/%s", p.Namespace, p.Name), l.in(p.Namespace, "logs", p.Name, "--all-containers", "--tail=50")
		default:
			command = podsOn(l.commands, n)
		}
		nodeLacks(l, n, fmt.Sprintf("label %s is true, but status.allocatable has no nvidia.com/gpu and no nvidia.com/mig-*", labelPresent)+why, fix, command)
	}
}

// productMissing concerns only the autoscaler: the other programs do not read the label.
func productMissing(l *look) {
	planned := len(orSkip(l, l.programs("autoscaler"), "no gpuscale autoscaler is installed, and only it reads this label")) > 0
	for _, n := range Nodes.in(l) {
		if !planned || gpus(n) == 0 || n.Labels[labelProduct] != "" {
			continue
		}
		nodeLacks(l, n, fmt.Sprintf("status.allocatable has %d nvidia.com/* devices, but the node has no label %s", gpus(n), labelProduct),
			"Run GPU feature discovery on the node (it is part of the GPU Operator, and of the device plugin's chart with gfd.enabled), or set the label by hand.", podsOn(l.commands, n))
	}
}

func twoWays(l *look) {
	orSkip(l, ResourceSlices.in(l), "no ResourceSlice offers a GPU")
	claimed := claimed(l)
	for _, n := range Nodes.in(l) {
		if devices := claimed[n.Name]; devices > 0 && gpus(n) > 0 {
			l.fault("Node "+n.Name, fmt.Sprintf("ResourceSlices of %s have %d devices of the node, and status.allocatable has %d nvidia.com/* devices", driverGPU, devices, gpus(n)),
				"Keep one of the two off this node: the device plugin (with the GPU Operator by the label nvidia.com/gpu.deploy.device-plugin=false), or the DRA driver's kubelet plugin (by its node selector).",
				l.kubectl("get", "resourceslices", "--field-selector", "spec.nodeName="+n.Name))
		}
	}
}

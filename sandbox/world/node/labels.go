package node

import (
	"strconv"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

const deployPrefix = "nvidia.com/gpu.deploy."

// clients are the programs that mig-manager pauses, if a node runs them.
var clients = []string{"dcgm", "dcgm-exporter", "device-plugin", "gpu-feature-discovery", "nvsm"}

const paused = "paused-for-mig-change"

// ExporterPaused reports whether a node's labels keep the GPU Operator from running DCGM's exporter there. A
// node that the Operator has not labelled yet runs everything.
func ExporterPaused(labels map[string]string) bool {
	v, labelled := labels[deployPrefix+"dcgm-exporter"]
	return labelled && v != "true"
}

// DiscoveryLabels returns the labels of GPU feature discovery that our programs read, for the mixed strategy
// and the current layout. Checked against v0.19.3 (internal/lm) on 2026-11-28. The GPU Operator sets
// gpu.present.
func (m *Machine) DiscoveryLabels() map[string]string {
	out := map[string]string{
		"nvidia.com/gpu.present": "true",
		"nvidia.com/gpu.product": m.spec.Product,
		"nvidia.com/gpu.count":   strconv.Itoa(len(m.gpus)),
		"nvidia.com/gpu.memory":  strconv.Itoa(m.model.MemoryMiB),
		"nvidia.com/mig.capable": strconv.FormatBool(m.table != nil),
		// Labels of all nodes, whatever their GPUs are.
		"nvidia.com/mig.strategy": "mixed",
	}
	counts := map[string]int{}
	for _, c := range m.gpus {
		for _, in := range c.Instances {
			counts[mig.ResourceName(in.Profile)]++
		}
	}
	for resource, n := range counts {
		out[resource+".count"] = strconv.Itoa(n)
	}
	return out
}

// deployLabels are the labels by which the GPU Operator places its DaemonSets.
func deployLabels() map[string]string {
	out := map[string]string{}
	for _, c := range clients {
		out[deployPrefix+c] = "true"
	}
	return out
}

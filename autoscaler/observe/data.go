package observe

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels of nodes that cache data. Fluid sets one per dataset, for each of its runtimes (Alluxio,
// JuiceFS, GooseFS, …). The documentation of JuiceFS' operator labels the nodes of a cache group's
// workers so.
const (
	fluidDatasetPrefix = "fluid.io/s-" // fluid.io/s-<namespace>-<dataset>=true
	juiceWorkerLabel   = "juicefs.io/cg-worker"
)

// holdsData reports whether a node's labels mark a cached dataset.
func holdsData(n *corev1.Node) bool {
	if n.Labels[juiceWorkerLabel] == "true" {
		return true
	}
	for key, value := range n.Labels {
		// Labels with this prefix and another value give amounts.
		if value == "true" && strings.HasPrefix(key, fluidDatasetPrefix) {
			return true
		}
	}
	return false
}

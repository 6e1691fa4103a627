package observe

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels of nodes that cache data. Fluid labels them for each dataset, whichever
// of its runtimes holds it (Alluxio, JuiceFS, GooseFS, …); JuiceFS's operator
// runs a cache group's workers on nodes labelled so in its documentation.
const (
	fluidDatasetPrefix = "fluid.io/s-" // fluid.io/s-<namespace>-<dataset>=true
	juiceWorkerLabel   = "juicefs.io/cg-worker"
)

// holdsData reports whether a node says that datasets are cached on it.
func holdsData(n *corev1.Node) bool {
	if n.Labels[juiceWorkerLabel] == "true" {
		return true
	}
	for key, value := range n.Labels {
		// Labels with the prefix that say how much are no "true".
		if value == "true" && strings.HasPrefix(key, fluidDatasetPrefix) {
			return true
		}
	}
	return false
}

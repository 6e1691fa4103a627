package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// datasetsAnnotation of pods lists the datasets that a pod reads, separated by commas.
const datasetsAnnotation = "gpuscale.io/datasets"

// Labels of nodes that cache data, with the value "true". Fluid (1.0.8,
// pkg/utils/dataset/lifecycle) sets one per dataset, for each of its runtimes (Alluxio, JuiceFS,
// GooseFS, …). The documentation of JuiceFS' operator labels the nodes of a cache group's workers so.
const (
	datasetPrefix      = "dataset.gpuscale.io/" // and a dataset's name
	fluidDatasetPrefix = "fluid.io/s-"          // and NAMESPACE-NAME
	juiceWorkerLabel   = "juicefs.io/cg-worker"
)

// marksData reports whether a label of a node marks a cached dataset. Fluid's labels of amounts have
// the same prefix.
func marksData(key, value string) bool {
	return value == "true" && (key == juiceWorkerLabel || strings.HasPrefix(key, datasetPrefix) || strings.HasPrefix(key, fluidDatasetPrefix))
}

// holdsData reports whether labels of a node mark a cached dataset.
func holdsData(labels map[string]string) bool {
	for key, value := range labels {
		if marksData(key, value) {
			return true
		}
	}
	return false
}

// datasets are the labels of the cluster's nodes, and of its pools' templates, that mark datasets.
type datasets map[string]bool

func datasetsOf(nodes []corev1.Node, pools []v1alpha1.GPUNodePool) datasets {
	out := datasets{}
	add := func(labels map[string]string) {
		for key, value := range labels {
			if marksData(key, value) {
				out[key] = true
			}
		}
	}
	for i := range nodes {
		add(nodes[i].Labels)
	}
	for i := range pools {
		add(pools[i].Spec.Template.Labels)
	}
	return out
}

// of returns the labels that mark a dataset of a pod: one that its annotation names, or a claim of
// Fluid's, which has its dataset's name. Without any such node nothing is preferred.
func (d datasets) of(p *corev1.Pod) []string {
	if len(d) == 0 {
		return nil
	}
	var out []string
	add := func(key string) {
		if d[key] {
			out = append(out, key)
		}
	}
	for name := range strings.SplitSeq(p.Annotations[datasetsAnnotation], ",") {
		name = strings.TrimSpace(name)
		add(datasetPrefix + name)
		add(fluidDatasetPrefix + p.Namespace + "-" + name)
	}
	for i := range p.Spec.Volumes {
		if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			add(fluidDatasetPrefix + p.Namespace + "-" + claim.ClaimName)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

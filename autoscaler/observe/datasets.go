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
// GooseFS, …). JuiceFS' operator documents its label for the nodes of a cache group's workers.
const (
	datasetPrefix      = "dataset.gpuscale.io/" // and a dataset's name
	fluidDatasetPrefix = "fluid.io/s-"          // and NAMESPACE-NAME
	juiceWorkerLabel   = "juicefs.io/cg-worker"
)

// dataOf returns the labels of a node that mark cached datasets. Fluid's labels with amounts have the same prefix.
func dataOf(labels map[string]string) (marks []string) {
	for key, value := range labels {
		if value == "true" && (key == juiceWorkerLabel || strings.HasPrefix(key, datasetPrefix) || strings.HasPrefix(key, fluidDatasetPrefix)) {
			marks = append(marks, key)
		}
	}
	return marks
}

// datasets are the labels of nodes, and of pools' templates, that mark datasets.
type datasets map[string]bool

func datasetsOf(nodes map[string]*nodeFacts, pools []v1alpha1.GPUNodePool) datasets {
	out := datasets{}
	for _, f := range nodes {
		for _, key := range f.data {
			out[key] = true
		}
	}
	for i := range pools {
		for _, key := range dataOf(pools[i].Spec.Template.Labels) {
			out[key] = true
		}
	}
	return out
}

// of returns the node labels that mark the datasets of a pod: those that its annotation names, and those of Fluid's
// claims, which have the names of their datasets. Labels that no node or pool has are left out.
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

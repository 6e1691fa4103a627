package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// labelStrategy is the device plugin's naming of instances.
const labelStrategy = "nvidia.com/mig.strategy"

// migStrategy: a pool's GPUs are to be repartitioned, and the device plugin offers instances
// under other names than the planner requests.
func migStrategy(l *look) {
	nodes := l.nodes()
	l.use(DaemonSets)
	pools := map[string]bool{}
	for _, p := range l.pools() {
		pools[p.Name] = p.Spec.MIG != nil && p.Spec.MIG.Actuator != "none"
	}
	for _, n := range nodes {
		pool, strategy := n.Labels[v1alpha1.NodePoolLabel], n.Labels[labelStrategy]
		if !pools[pool] || strategy != "single" && strategy != "none" {
			continue
		}
		l.fault(Finding{
			Object: "Node " + n.Name, Seen: fmt.Sprintf("label %s is %s, and spec.mig of its GPUNodePool %s is given", labelStrategy, strategy, pool),
			Fix:      "Set the strategy to mixed (spec.mig.strategy of the GPU Operator's ClusterPolicy, or migStrategy of the device plugin's chart), or remove spec.mig from the pool.",
			Commands: []string{l.mixed(n)},
		})
	}
}

// mixed writes the command that has a node's instances offered by their profile names,
// or one that shows where the strategy is set.
func (l *look) mixed(n *corev1.Node) string {
	for _, d := range l.f.DaemonSets {
		if !slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(image(c.Image), "k8s-device-plugin") }) {
			continue
		}
		at := slices.IndexFunc(d.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ClusterPolicy" })
		if at >= 0 {
			return l.patch("", "clusterpolicies.nvidia.com", d.OwnerReferences[at].Name, `{"spec":{"mig":{"strategy":"mixed"}}}`)
		}
		return l.in(d.Namespace, "get", "daemonset", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].env} {.spec.template.spec.containers[*].args}")
	}
	return l.kubectl("get", "node", n.Name, "-L", labelStrategy)
}

package crashstory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// State is what there is at the end and what was done on the way, one fact a
// line, sorted. Of times only whether there is one is kept: two runs never have
// the same.
type State []string

// Diff is what other has besides, and lacks: "+ …", "- …".
func (s State) Diff(other State) []string {
	var out []string
	for _, line := range s {
		if !slices.Contains(other, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range other {
		if !slices.Contains(s, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

// read takes the state of the world as the API server has it.
func read(ctx context.Context, c client.Client) (State, error) {
	var out State
	var nodes corev1.NodeList
	var pods corev1.PodList
	var pools v1alpha1.GPUNodePoolList
	for _, list := range []client.ObjectList{&nodes, &pods, &pools} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for i := range nodes.Items {
		out = append(out, nodeLines(&nodes.Items[i])...)
	}
	for _, p := range pods.Items {
		out = append(out, fmt.Sprintf("pod %s/%s is %s on %s", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName))
	}
	for _, p := range pools.Items {
		out = append(out, poolLines(&p)...)
	}
	var config corev1.ConfigMap
	if err := c.Get(ctx, partition.DefaultConfigMap, &config); err != nil {
		return nil, err
	}
	parsed, err := partition.ParseConfig(config.Data[partition.ConfigKey])
	if err != nil {
		return nil, err
	}
	for name := range parsed.MIGConfigs {
		out = append(out, "mig config "+name)
	}
	slices.Sort(out)
	return out, nil
}

func nodeLines(n *corev1.Node) []string {
	at := "node " + n.Name
	out := []string{fmt.Sprintf("%s, unschedulable %t, ready %t", at, n.Spec.Unschedulable, kube.NodeReady(n))}
	for _, t := range n.Spec.Taints {
		out = append(out, fmt.Sprintf("%s has taint %s=%s:%s", at, t.Key, t.Value, t.Effect))
	}
	for k, v := range n.Labels {
		out = append(out, fmt.Sprintf("%s has label %s=%s", at, k, v))
	}
	for k, v := range n.Annotations {
		out = append(out, fmt.Sprintf("%s has annotation %s=%s", at, k, v))
	}
	for r, count := range partition.Advertised(n) {
		out = append(out, fmt.Sprintf("%s offers %d %s", at, count, r))
	}
	return out
}

// poolLines leaves out what only publishes, the epoch, which counts starts, and
// how many nodes were requested within the hour: a request of unknown outcome
// counts as one, so after a kill there may be more.
func poolLines(p *v1alpha1.GPUNodePool) []string {
	at, s := "pool "+p.Name, p.Status
	out := []string{fmt.Sprintf("%s has size %d, target %d, ready %d, upcoming %d", at, s.Size, s.Target, s.Ready, s.Upcoming)}
	for _, c := range s.Conditions {
		if c.Type != "ScalingLimited" { // the present reason for not scaling up
			out = append(out, fmt.Sprintf("%s is %s=%s", at, c.Type, c.Status))
		}
	}
	if s.Backoff != nil {
		out = append(out, at+" backs off")
	}
	m := s.PlannerState
	for what, there := range map[string]bool{
		"scale up": m.LastScaleUpTime != nil, "scale down": m.LastScaleDownTime != nil, "drain": m.LastDrainTime != nil,
		"replace": m.LastReplaceTime != nil, "growth": len(m.Grown) > 0,
	} {
		if there {
			out = append(out, at+" remembers a "+what)
		}
	}
	for n := range m.LastRepartitionTime {
		out = append(out, at+" remembers a repartition of "+n)
	}
	for n := range m.SickSinceTime {
		out = append(out, at+" remembers that "+n+" is sick")
	}
	for c, f := range m.Failures {
		out = append(out, fmt.Sprintf("%s remembers %d failures of %s", at, f.Count, c))
	}
	return out
}

// effects are the changes that were really made, by object.
func effects(made, removed, left []string, repartitionsDone int) State {
	out := State{fmt.Sprintf("done: GPUs repartitioned ×%d", repartitionsDone)}
	for what, names := range map[string][]string{"nodes made": made, "nodes deleted": removed, "pods evicted": left} {
		byName := map[string]int{}
		for _, n := range names {
			byName[n]++
		}
		var each []string
		for _, n := range slices.Sorted(maps.Keys(byName)) {
			each = append(each, fmt.Sprintf("%s ×%d", n, byName[n]))
		}
		out = append(out, fmt.Sprintf("done: %s: %s", what, strings.Join(each, ", ")))
	}
	slices.Sort(out)
	return out
}

func values[K comparable](m map[K]string) []string { return slices.Sorted(maps.Values(m)) }

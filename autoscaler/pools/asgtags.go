package pools

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// templateTag is the prefix of the tags by which users of cluster-autoscaler describe the nodes of
// a group.
const templateTag = "k8s.io/cluster-autoscaler/node-template/"

// nodeFacts are what a provider says of a group's nodes.
type nodeFacts struct {
	labels map[string]string
	taints []plan.Taint
	others []plan.Resource
	gpus   int64 // 0: not tagged
}

// readTags reads the node-template tags of a group. An error names the tag.
func readTags(tags []types.TagDescription) (nodeFacts, error) {
	out := nodeFacts{labels: map[string]string{}}
	for _, tag := range tags {
		rest, ok := strings.CutPrefix(aws.ToString(tag.Key), templateTag)
		if !ok {
			continue
		}
		if err := out.read(rest, aws.ToString(tag.Value)); err != nil {
			return nodeFacts{}, fmt.Errorf("tag %s%s: %w", templateTag, rest, err)
		}
	}
	slices.SortFunc(out.taints, func(a, b plan.Taint) int { return strings.Compare(a.Key+a.Effect, b.Key+b.Effect) })
	slices.SortFunc(out.others, func(a, b plan.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (n *nodeFacts) read(rest, value string) error {
	kind, name, ok := strings.Cut(rest, "/")
	if !ok || name == "" {
		return nil // another tag of cluster-autoscaler, such as autoscaling-options
	}
	switch kind {
	case "label":
		n.labels[name] = value
	case "taint":
		v, effect, _ := strings.Cut(value, ":")
		switch corev1.TaintEffect(effect) {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			n.taints = append(n.taints, plan.Taint{Key: name, Value: v, Effect: effect})
		default:
			return fmt.Errorf("%q is no value:effect such as dedicated:NoSchedule", value)
		}
	case "resources":
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Sign() < 0 || q.AsApproximateFloat64() >= math.MaxInt64 { // larger amounts overflow
			return fmt.Errorf("%q is no amount", value)
		}
		n.resource(name, q)
	}
	return nil
}

// resource records an amount. CPU and memory are ignored: the pool's template has them.
func (n *nodeFacts) resource(name string, q resource.Quantity) {
	switch name {
	case partition.GPUResource:
		n.gpus = q.Value()
	case string(corev1.ResourceCPU), string(corev1.ResourceMemory):
	default:
		if !strings.HasPrefix(name, "nvidia.com/") {
			n.others = append(n.others, plan.Resource{Name: name, Amount: q.Value()})
		}
	}
}

// addTo adds what the pool's own template does not set.
func (n nodeFacts) addTo(t *plan.Template) {
	for k, v := range n.labels {
		if _, set := t.Labels[k]; !set {
			t.Labels[k] = v
		}
	}
	for _, taint := range n.taints {
		if !slices.ContainsFunc(t.Taints, func(have plan.Taint) bool { return have.Key == taint.Key && have.Effect == taint.Effect }) {
			t.Taints = append(t.Taints, taint)
		}
	}
	for _, other := range n.others {
		if !slices.ContainsFunc(t.Others, func(have plan.Resource) bool { return have.Name == other.Name }) {
			t.Others = append(t.Others, other)
		}
	}
}

// tagsOf reads the group's tags, and rejects those that contradict the pool.
func tagsOf(pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) (nodeFacts, error) {
	tags, err := readTags(group.Tags)
	if err != nil {
		return nodeFacts{}, &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("Auto Scaling group %s: %v", aws.ToString(group.AutoScalingGroupName), err), "correct or remove the tag"}
	}
	gpus, offered := int64(pool.Spec.Template.GPUs), int64(pool.Spec.Template.GPUs)
	if s := pool.Spec.Template.Sharing; s != nil && s.Replicas > 0 && !s.RenameByDefault {
		offered *= int64(s.Replicas)
	}
	if tags.gpus > 0 && tags.gpus != gpus && tags.gpus != offered {
		return nodeFacts{}, &Problem{ReasonTarget, "spec.template.gpus",
			fmt.Sprintf("%d, but the group's tag %sresources/%s says %d", gpus, templateTag, partition.GPUResource, tags.gpus),
			"correct the one that is wrong"}
	}
	return tags, nil
}

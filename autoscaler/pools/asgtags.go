package pools

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// templateTag is the prefix of the tags by which users of cluster-autoscaler describe the nodes of
// a group.
const templateTag = "k8s.io/cluster-autoscaler/node-template/"

// readTags returns a node as the node-template tags of a group describe it. An error names the tag.
func readTags(tags []types.TagDescription) (*corev1.Node, error) {
	out := &corev1.Node{}
	out.Labels, out.Status.Allocatable = map[string]string{}, corev1.ResourceList{}
	for _, tag := range slices.SortedFunc(slices.Values(tags), func(a, b types.TagDescription) int { return strings.Compare(aws.ToString(a.Key), aws.ToString(b.Key)) }) {
		rest, ok := strings.CutPrefix(aws.ToString(tag.Key), templateTag)
		kind, name, named := strings.Cut(rest, "/")
		if !ok || !named || name == "" {
			continue // such as autoscaling-options
		}
		if err := readTag(out, kind, name, aws.ToString(tag.Value)); err != nil {
			return nil, fmt.Errorf("tag %s%s: %w", templateTag, rest, err)
		}
	}
	return out, nil
}

func readTag(n *corev1.Node, kind, name, value string) error {
	switch kind {
	case "label":
		n.Labels[name] = value
	case "taint":
		v, effect, _ := strings.Cut(value, ":")
		switch effect := corev1.TaintEffect(effect); effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: name, Value: v, Effect: effect})
		default:
			return fmt.Errorf("%q: want value:effect, such as dedicated:NoSchedule", value)
		}
	case "resources":
		q, err := amount.Parse(value)
		if err != nil || q.Sign() < 0 || q.AsApproximateFloat64() >= math.MaxInt64 { // larger amounts overflow
			return fmt.Errorf("%q is not an amount", value)
		}
		n.Status.Allocatable[corev1.ResourceName(name)] = q
	}
	return nil
}

// tagsOf reads the group's tags, and rejects those that contradict the pool.
func tagsOf(pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) (*corev1.Node, error) {
	described, err := readTags(group.Tags)
	if err != nil {
		return nil, &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("Auto Scaling group %s: %v", aws.ToString(group.AutoScalingGroupName), err), "correct or remove the tag"}
	}
	zone := ""
	if len(group.AvailabilityZones) == 1 {
		zone = group.AvailabilityZones[0]
	}
	for key, value := range map[string]string{
		corev1.LabelInstanceTypeStable: pool.Spec.Provider.ASG.InstanceType, corev1.LabelTopologyRegion: pool.Spec.Provider.ASG.Region, corev1.LabelTopologyZone: zone,
	} {
		if _, tagged := described.Labels[key]; !tagged && value != "" {
			described.Labels[key] = value
		}
	}
	tagged := described.Status.Allocatable[partition.GPUResource]
	gpus, offered := int64(pool.Spec.Template.GPUs), int64(pool.Spec.Template.GPUs)
	if s := pool.Spec.Template.Sharing; s != nil && s.Replicas > 0 && !s.RenameByDefault {
		offered *= int64(s.Replicas)
	}
	instances := plan.InstancesAsGPUs(pool.Spec.Template.Labels) || plan.InstancesAsGPUs(described.Labels)
	if n := tagged.Value(); n > 0 && n != gpus && n != offered && !instances {
		return nil, &Problem{ReasonTarget, "spec.template.gpus",
			fmt.Sprintf("%d, but the group's tag %sresources/%s says %d", gpus, templateTag, partition.GPUResource, n), "correct the one that is wrong"}
	}
	return described, nil
}

package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
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
			return fmt.Errorf("%q is no value:effect such as dedicated:NoSchedule", value)
		}
	case "resources":
		q, err := amount.Parse(value)
		if err != nil || q.Sign() < 0 || q.AsApproximateFloat64() >= math.MaxInt64 { // larger amounts overflow
			return fmt.Errorf("%q is no amount", value)
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
	tagged := described.Status.Allocatable[partition.GPUResource]
	gpus, offered := int64(pool.Spec.Template.GPUs), int64(pool.Spec.Template.GPUs)
	if s := pool.Spec.Template.Sharing; s != nil && s.Replicas > 0 && !s.RenameByDefault {
		offered *= int64(s.Replicas)
	}
	if n := tagged.Value(); n > 0 && n != gpus && n != offered {
		return nil, &Problem{ReasonTarget, "spec.template.gpus",
			fmt.Sprintf("%d, but the group's tag %sresources/%s says %d", gpus, templateTag, partition.GPUResource, n), "correct the one that is wrong"}
	}
	return described, nil
}

const (
	// spotNotice is the time between EC2's spot notice and the interruption. noticeLife is how long after that, or after
	// another notice, it counts: it was not interrupted.
	spotNotice, noticeLife = 2 * time.Minute, 10 * time.Minute
	// maxNotices bounds the stored notices.
	maxNotices = 10000
)

// Leaving is a node with a notice of its provider.
type Leaving struct {
	Instance string // the last part of the node's providerID
	At       time.Time
	// Ends is when the instance is interrupted, zero where the risk of that is elevated.
	Ends time.Time
}

// over reports whether a notice no longer counts.
func (l Leaving) over(now time.Time) bool {
	return now.Sub(slices.MaxFunc([]time.Time{l.At, l.Ends}, time.Time.Compare)) > noticeLife
}

// note records a notice. Its message stays in its queue while it is fresh, so a restarted process reads it again.
func (a *asg) note(l Leaving) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if had, ok := a.notices[l.Instance]; ok && !had.Ends.IsZero() && l.Ends.IsZero() {
		return // the stronger notice stays
	}
	if len(a.notices) < maxNotices {
		a.notices[l.Instance] = l
	}
}

// noted returns the fresh notices about the instances of a group, and drops the stale notices of all
// others.
func (a *asg) noted(group *types.AutoScalingGroup) []Leaving {
	now := a.o.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Leaving
	for id, l := range a.notices {
		if l.over(now) {
			delete(a.notices, id)
		} else if slices.ContainsFunc(group.Instances, func(i types.Instance) bool { return aws.ToString(i.InstanceId) == id }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Leaving) int { return strings.Compare(a.Instance, b.Instance) })
	return out
}

// leaving reads the pool's queue.
func (a *asg) leaving(ctx context.Context, pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) []Leaving {
	ref := pool.Spec.Provider.ASG
	if ref.InterruptionQueue == "" {
		return nil
	}
	if err := a.receive(ctx, ref); err != nil {
		a.o.Log.Warn("interruption notices cannot be read", "pool", pool.Name, "err", err)
	}
	return a.noted(group)
}

// receiveTimeout bounds the reads of a queue. The SDK cannot ask for no wait, so a queue whose own receive
// wait time is not zero would take all of the listing's time.
const receiveTimeout = time.Second

func (a *asg) receive(ctx context.Context, ref *v1alpha1.ASGProvider) error {
	config, err := a.config(ctx, ref.Region)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	c := sqs.NewFromConfig(config)
	for n := 0; ; n++ {
		out, err := c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &ref.InterruptionQueue, MaxNumberOfMessages: 10, VisibilityTimeout: 60})
		switch {
		case err != nil && (n == 0 || ctx.Err() == nil):
			return fmt.Errorf("reading the interruption queue, whose receive wait time must be 0: %w", err)
		case err != nil || len(out.Messages) == 0: // a call can answer less than there is
			return nil
		}
		for _, m := range out.Messages {
			l, err := parseNotice([]byte(aws.ToString(m.Body)))
			if err == nil && !l.over(a.o.Now()) {
				a.note(l)
				continue
			}
			if err != nil {
				a.o.Log.Warn("deleting a message of the interruption queue that is no EC2 notice", "queue", ref.InterruptionQueue, "err", err)
			}
			if _, err := c.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &ref.InterruptionQueue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return fmt.Errorf("deleting a message of the interruption queue: %w", err)
			}
		}
	}
}

// notices are the events of instances that are interrupted, or may be, and how long after.
var notices = map[string]time.Duration{
	"EC2 Spot Instance Interruption Warning": spotNotice, "EC2 Instance Rebalance Recommendation": 0,
	"EC2 Capacity Reservation Instance Interruption Warning": spotNotice, // such as a Capacity Block of GPUs; its event has the time
}

// parseNotice parses an event in EventBridge's format.
func parseNotice(body []byte) (Leaving, error) {
	var event struct {
		Source string    `json:"source"`
		Type   string    `json:"detail-type"`
		Time   time.Time `json:"time"`
		Detail struct {
			Instance string `json:"instance-id"`
			Ends     string `json:"instance-termination-time"`
		} `json:"detail"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return Leaving{}, fmt.Errorf("reading an event: %w", err)
	}
	after, ok := notices[event.Type]
	if event.Source != "aws.ec2" || !ok || !instanceID.MatchString(event.Detail.Instance) || event.Time.IsZero() {
		return Leaving{}, fmt.Errorf("an event %.100q from %.100q about instance %.100q at %s is no notice", event.Type, event.Source, event.Detail.Instance, event.Time)
	}
	out := Leaving{Instance: event.Detail.Instance, At: event.Time}
	if after > 0 {
		out.Ends = event.Time.Add(after)
		if at, err := time.Parse(time.RFC3339, event.Detail.Ends); err == nil && at.Sub(event.Time) < time.Hour {
			out.Ends = at
		}
	}
	return out, nil
}

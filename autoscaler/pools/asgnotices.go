package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

const (
	// spotNotice is the time from EC2's spot notice to the interruption. noticeLife is how long a notice counts after
	// the time of the interruption, or after a notice without one: an instance that still exists then was not
	// interrupted.
	spotNotice, noticeLife = 2 * time.Minute, 10 * time.Minute
	// maxNotices bounds the stored notices.
	maxNotices = 10000
)

// Notice is a provider's notice that a node may be, or is about to be, interrupted.
type Notice struct {
	Instance string // the last part of the node's providerID
	At       time.Time
	// Ends is when the instance is interrupted; zero where only the risk is elevated.
	Ends time.Time
}

// expired reports whether a notice no longer counts.
func (l Notice) expired(now time.Time) bool {
	return now.Sub(slices.MaxFunc([]time.Time{l.At, l.Ends}, time.Time.Compare)) > noticeLife
}

// note records a notice. Its message stays in its queue while it is fresh, so a restarted process reads it again.
func (a *asg) note(l Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if had, ok := a.notices[l.Instance]; ok && !had.Ends.IsZero() && (l.Ends.IsZero() || had.Ends.Before(l.Ends)) {
		return // the stronger notice stays
	}
	if len(a.notices) < maxNotices {
		a.notices[l.Instance] = l
	}
}

// noted returns the fresh notices about the instances of a group, and drops the stale notices of all
// others.
func (a *asg) noted(group *types.AutoScalingGroup) []Notice {
	now := a.o.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Notice
	for id, l := range a.notices {
		if l.expired(now) {
			delete(a.notices, id)
		} else if slices.ContainsFunc(group.Instances, func(i types.Instance) bool { return aws.ToString(i.InstanceId) == id }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Notice) int { return strings.Compare(a.Instance, b.Instance) })
	return out
}

// noticesOf reads the pool's queue.
func (a *asg) noticesOf(ctx context.Context, pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) []Notice {
	ref := pool.Spec.Provider.ASG
	if ref.InterruptionQueue == "" {
		return nil
	}
	a.warn("interruption notices", pool, a.receive(ctx, ref))
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
			fresh, err := parseNotices([]byte(aws.ToString(m.Body)))
			fresh = slices.DeleteFunc(fresh, func(l Notice) bool { return l.expired(a.o.Now()) })
			for _, l := range fresh {
				a.note(l)
			}
			if len(fresh) > 0 {
				continue
			}
			if err != nil {
				a.o.Log.Warn("deleting a message of the interruption queue that is not an EC2 notice", "queue", ref.InterruptionQueue, "err", err)
			}
			if _, err := c.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &ref.InterruptionQueue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return fmt.Errorf("deleting a message of the interruption queue: %w", err)
			}
		}
	}
}

// noticeEvents are the events about interruptions of instances, each with the time from the event to the interruption;
// 0 where an interruption is only possible.
var noticeEvents = map[string]time.Duration{
	"EC2 Spot Instance Interruption Warning": spotNotice, "EC2 Instance Rebalance Recommendation": 0,
	"EC2 Capacity Reservation Instance Interruption Warning": spotNotice, // such as a Capacity Block of GPUs; its event has the time
}

var instanceID = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// bridgeEvent is one in EventBridge's format.
type bridgeEvent struct {
	Source string    `json:"source"`
	Type   string    `json:"detail-type"`
	Time   time.Time `json:"time"`
	Detail struct {
		// Of aws.ec2.
		Instance string `json:"instance-id"`
		Ends     string `json:"instance-termination-time"`
		// Of aws.health.
		Service  string `json:"service"`
		Category string `json:"eventTypeCategory"`
		Status   string `json:"statusCode"`
		Starts   string `json:"startTime"`
		Affected []struct {
			Instance string `json:"entityValue"`
		} `json:"affectedEntities"`
	} `json:"detail"`
}

// parseNotices parses an event in EventBridge's format: EC2's about one instance, or AWS Health's about those that it reboots,
// stops or retires, often weeks later.
func parseNotices(body []byte) ([]Notice, error) {
	var e bridgeEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	d := &e.Detail
	var out []Notice
	if after, ok := noticeEvents[e.Type]; ok && e.Source == "aws.ec2" {
		l := Notice{Instance: d.Instance, At: e.Time}
		if after > 0 {
			l.Ends = e.Time.Add(after)
			if at, err := time.Parse(time.RFC3339, d.Ends); err == nil && at.Sub(e.Time) < time.Hour {
				l.Ends = at
			}
		}
		out = append(out, l)
	} else if starts, err := time.Parse(time.RFC1123, d.Starts); err == nil && e.Source == "aws.health" && d.Service == "EC2" && d.Category == "scheduledChange" && d.Status != "closed" {
		for _, a := range d.Affected {
			out = append(out, Notice{Instance: a.Instance, At: e.Time, Ends: starts.UTC()})
		}
	}
	out = slices.DeleteFunc(out, func(l Notice) bool { return !instanceID.MatchString(l.Instance) || l.At.IsZero() })
	if len(out) == 0 {
		return nil, fmt.Errorf("an event %.100q from %.100q about instance %.100q at %s is not an interruption notice", e.Type, e.Source, d.Instance, e.Time)
	}
	return out, nil
}

package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

const (
	// noticeLife is how long a notice counts: an interruption follows two minutes after its
	// warning, or not at all.
	noticeLife = 10 * time.Minute
	// maxReceives bounds the calls of one read, of ten messages each.
	maxReceives = 5
	// maxNotices bounds the stored notices.
	maxNotices = 10000
)

// Kinds of notices.
const (
	Interruption = "interruption" // the instance is interrupted in two minutes
	Rebalance    = "rebalance"    // the risk of an interruption is elevated
)

// Leaving is a node with a notice of its provider.
type Leaving struct {
	Instance string // the last part of the node's providerID
	Kind     string // Interruption or Rebalance
	At       time.Time
}

// notices by instance. A message stays in its queue while its notice is fresh, so a restarted
// process reads it again.
type notices struct {
	mu     sync.Mutex
	latest map[string]Leaving
}

func newNotices() *notices { return &notices{latest: map[string]Leaving{}} }

func (n *notices) add(l Leaving) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if had, ok := n.latest[l.Instance]; ok && had.Kind == Interruption && l.Kind == Rebalance {
		return // the stronger notice stays
	}
	if len(n.latest) < maxNotices {
		n.latest[l.Instance] = l
	}
}

// of returns the fresh notices about the instances of a group, and drops the stale notices of all
// others.
func (n *notices) of(group *types.AutoScalingGroup, now time.Time) []Leaving {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Leaving
	for id, l := range n.latest {
		if now.Sub(l.At) > noticeLife {
			delete(n.latest, id)
		} else if instanceOf(group, id) != nil {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Leaving) int { return strings.Compare(a.Instance, b.Instance) })
	return out
}

// leaving reads the pool's queue.
func (a *ASG) leaving(ctx context.Context, pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) []Leaving {
	ref := pool.Spec.Provider.ASG
	if ref.InterruptionQueue == "" {
		return nil
	}
	if err := a.receive(ctx, ref); err != nil {
		a.o.Log.Warn("interruption notices cannot be read", "pool", pool.Name, "err", err)
	}
	return a.notices.of(group, a.o.Now())
}

// receiveTimeout bounds the reads of a queue. The SDK cannot ask for no wait, so a queue whose own receive
// wait time is not zero would take all of the listing's time.
const receiveTimeout = time.Second

func (a *ASG) receive(ctx context.Context, ref *v1alpha1.ASGProvider) error {
	config, err := a.config(ctx, ref.Region)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	c := sqs.NewFromConfig(config)
	for range maxReceives {
		out, err := c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &ref.InterruptionQueue, MaxNumberOfMessages: 10, VisibilityTimeout: 60})
		if err != nil {
			return fmt.Errorf("reading the interruption queue, whose receive wait time must be 0: %w", err)
		}
		for _, m := range out.Messages {
			l, err := parseNotice([]byte(aws.ToString(m.Body)))
			if err == nil && a.o.Now().Sub(l.At) <= noticeLife {
				a.notices.add(l)
				continue
			}
			if err != nil {
				a.o.Log.Warn("deleting a message of the interruption queue that is no EC2 notice", "queue", ref.InterruptionQueue, "err", err)
			}
			if _, err := c.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &ref.InterruptionQueue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return fmt.Errorf("deleting a message of the interruption queue: %w", err)
			}
		}
		if len(out.Messages) < 10 {
			return nil
		}
	}
	return nil
}

// parseNotice parses an event in EventBridge's format.
func parseNotice(body []byte) (Leaving, error) {
	var event struct {
		Source string    `json:"source"`
		Type   string    `json:"detail-type"`
		Time   time.Time `json:"time"`
		Detail struct {
			Instance string `json:"instance-id"`
		} `json:"detail"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return Leaving{}, fmt.Errorf("reading an event: %w", err)
	}
	kinds := map[string]string{
		"EC2 Spot Instance Interruption Warning": Interruption,
		"EC2 Instance Rebalance Recommendation":  Rebalance,
	}
	kind, ok := kinds[event.Type]
	if event.Source != "aws.ec2" || !ok || !isInstanceID(event.Detail.Instance) || event.Time.IsZero() {
		return Leaving{}, fmt.Errorf("an event %.100q from %.100q about instance %.100q at %s is no notice", event.Type, event.Source, event.Detail.Instance, event.Time)
	}
	return Leaving{Instance: event.Detail.Instance, Kind: kind, At: event.Time}, nil
}

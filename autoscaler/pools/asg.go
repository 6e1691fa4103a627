package pools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/text"
)

const (
	fieldASG = "spec.provider.asg"
	// poolTag on a group has the name of the pool that may size it.
	poolTag = v1alpha1.NodePoolLabel
	// caEnabledTag is the tag by which cluster-autoscaler finds its groups.
	caEnabledTag = "k8s.io/cluster-autoscaler/enabled"
)

// asg reads AWS Auto Scaling groups.
type asg struct {
	o ASGOptions

	mu      sync.Mutex
	configs map[string]aws.Config // by region
	prices  map[string]spotPrice  // by pool
	raised  map[string]time.Time  // when a pool's size was raised last
	notices map[string]Notice     // by instance, the strongest
	failing map[string]bool       // what could not be read the last time, by message and pool
}

// ASGOptions of an ASG provider.
type ASGOptions struct {
	// Live reads Nodes from the API server.
	Live client.Reader
	// Config returns credentials and endpoints for a region.
	Config func(ctx context.Context, region string) (aws.Config, error)
	// Now is the clock, nil for time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// NewASG returns the provider of AWS Auto Scaling groups. It makes no call before a pool uses it.
func NewASG(o ASGOptions) *Groups {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	a := &asg{o: o, configs: map[string]aws.Config{}, prices: map[string]spotPrice{}, raised: map[string]time.Time{}, notices: map[string]Notice{}, failing: map[string]bool{}}
	return &Groups{read: a.read, live: o.Live, memo: newMemo(groupEvery, o.Now), listing: 3 * time.Second, known: map[string]map[string]known{}}
}

// asgGroup is one group.
type asgGroup struct {
	*asg
	client *autoscaling.Client
	pool   *v1alpha1.GPUNodePool
	group  *types.AutoScalingGroup
}

// read implements Groups.read.
func (a *asg) read(ctx context.Context, pool *v1alpha1.GPUNodePool) (*group, error) {
	c, g, err := a.describe(ctx, pool)
	if err != nil {
		return nil, err
	}
	out := &group{
		name: "Auto Scaling group " + aws.ToString(g.AutoScalingGroupName), target: int(aws.ToInt32(g.DesiredCapacity)),
		least: int(aws.ToInt32(g.MinSize)), most: int(aws.ToInt32(g.MaxSize)), keeps: true, exact: true, cloud: &asgGroup{a, c, pool, g},
	}
	for _, i := range g.Instances {
		out.machines = append(out.machines, machine{
			id:    "aws:///" + aws.ToString(i.AvailabilityZone) + "/" + aws.ToString(i.InstanceId),
			going: leavingState(i.LifecycleState), apart: apartState(i.LifecycleState),
		})
	}
	return out, nil
}

// complete implements groupAPI. Failures to read spot prices and notices are logged; they do not fail the listing.
func (g *asgGroup) complete(ctx context.Context, l *Listing, missing int) (err error) {
	if l.described, err = tagsOf(g.pool, g.group); err != nil {
		return err
	}
	if missing > 0 {
		if l.FailedWhy = g.failed(ctx); l.FailedWhy != "" {
			l.Failed = missing
		}
	}
	l.SpotPrice = g.spotPrice(ctx, g.pool, g.group)
	l.Notices = g.noticesOf(ctx, g.pool, g.group)
	return nil
}

// warn logs why something about a pool cannot be read, nil if it can, once until it can. The text of AWS' errors differs
// each time.
func (a *asg) warn(what string, pool *v1alpha1.GPUNodePool, err error) {
	key := pool.Name + " " + what
	a.mu.Lock()
	isNew := err != nil && !a.failing[key]
	a.failing[key] = err != nil
	a.mu.Unlock()
	if isNew {
		a.o.Log.Warn("something about a pool cannot be read from AWS", "what", what, "pool", pool.Name, "err", err)
	}
}

// failedFor is how long a failure to start an instance counts at most.
const failedFor = 10 * time.Minute

// failed returns why AWS could not start an instance, for example for want of capacity, at its latest attempt since the
// size was raised. It is empty if that attempt succeeded or is under way. AWS goes on trying, so a later attempt may
// succeed.
func (g *asgGroup) failed(ctx context.Context) string {
	out, err := g.client.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{
		AutoScalingGroupName: g.group.AutoScalingGroupName, MaxRecords: aws.Int32(50),
	})
	if g.warn("scaling activities", g.pool, err); err != nil {
		return ""
	}
	g.mu.Lock()
	since := g.raised[g.pool.Name]
	g.mu.Unlock()
	if at := g.o.Now().Add(-failedFor); at.After(since) {
		since = at
	}
	for _, a := range out.Activities { // the latest first
		if aws.ToTime(a.StartTime).Before(since) {
			break
		}
		switch ends := strings.HasPrefix(aws.ToString(a.Description), "Terminating"); {
		case ends, a.StatusCode == types.ScalingActivityStatusCodeCancelled:
		case a.StatusCode == types.ScalingActivityStatusCodeFailed:
			return text.Short(cmp.Or(aws.ToString(a.StatusMessage), "no reason given"), maxWhy)
		default: // under way, or successful
			return ""
		}
	}
	return ""
}

// launches returns why the group starts no instance.
func (g *asgGroup) launches() error {
	if !slices.ContainsFunc(g.group.SuspendedProcesses, func(p types.SuspendedProcess) bool { return aws.ToString(p.ProcessName) == "Launch" }) {
		return nil
	}
	return &Problem{ReasonTarget, fieldASG + ".name",
		fmt.Sprintf("the process Launch of Auto Scaling group %s is suspended: it starts no instance", aws.ToString(g.group.AutoScalingGroupName)), "resume it"}
}

// raise implements groupAPI.
func (g *asgGroup) raise(ctx context.Context, size int) error {
	if err := g.launches(); err != nil {
		return err
	}
	g.mu.Lock()
	g.raised[g.pool.Name] = g.o.Now()
	g.mu.Unlock()
	return g.resize(ctx, size)
}

func (g *asgGroup) resize(ctx context.Context, size int) error {
	_, err := g.client.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: g.group.AutoScalingGroupName, DesiredCapacity: aws.Int32(int32(size)), HonorCooldown: aws.Bool(false),
	})
	if err != nil {
		return fmt.Errorf("setting the size of Auto Scaling group %s: %w", aws.ToString(g.group.AutoScalingGroupName), busy(err))
	}
	return nil
}

// busy marks the errors that mean that another change of the group is under way.
func busy(err error) error {
	if errors.As(err, new(*types.ScalingActivityInProgressFault)) || errors.As(err, new(*types.ResourceContentionFault)) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// withdraw implements groupAPI. If AWS starts an instance after the reading, the group has one too many, and AWS
// terminates one of its choice. Hence each instance must be protected from scale-in. If the group may not be smaller,
// AWS replaces the absent instances.
func (g *asgGroup) withdraw(ctx context.Context, size int, absent []string) error {
	target := int(aws.ToInt32(g.group.DesiredCapacity))
	for _, id := range absent {
		lower := target > size
		if err := g.terminate(ctx, id, lower); err != nil {
			return err
		}
		if lower {
			target--
		}
	}
	if target <= size {
		return nil
	}
	exposed := 0
	for _, i := range g.group.Instances {
		if !leavingState(i.LifecycleState) && !apartState(i.LifecycleState) && !aws.ToBool(i.ProtectedFromScaleIn) {
			exposed++
		}
	}
	if exposed > 0 {
		return &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("%d instances of Auto Scaling group %s are not protected from scale-in: a smaller size could terminate one that is in use", exposed, aws.ToString(g.group.AutoScalingGroupName)),
			"protect the group's instances, also new ones; gpuscale still removes nodes by their IDs"}
	}
	return g.resize(ctx, size)
}

// remove implements groupAPI: a group whose size stays starts another instance.
func (g *asgGroup) remove(ctx context.Context, node *corev1.Node, replace bool) error {
	if err := g.launches(); replace && err != nil {
		return err
	}
	return g.terminate(ctx, node.Spec.ProviderID, !replace)
}

// terminate terminates an instance. With lower the size is lowered by one, else it stays.
func (g *asgGroup) terminate(ctx context.Context, providerID string, lower bool) error {
	_, err := g.client.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: aws.String(LastPart(providerID)), ShouldDecrementDesiredCapacity: aws.Bool(lower),
	})
	if err != nil {
		return fmt.Errorf("terminating instance %s: %w", LastPart(providerID), busy(err))
	}
	return nil
}

// leavingState matches Terminating, Terminating:Wait, Terminating:Proceed, Terminated.
func leavingState(s types.LifecycleState) bool { return strings.HasPrefix(string(s), "Terminat") }

// apartState reports whether an instance stays although the group's size does not count it: in Standby, or detached.
// AWS has replaced it or has lowered the size by it. The size counts it again when it leaves Standby. Instances of a
// warm pool are not among a group's instances (DescribeWarmPool lists them).
func apartState(s types.LifecycleState) bool {
	name := string(s)
	return strings.HasSuffix(name, "Standby") || strings.HasPrefix(name, "Detach")
}

// config returns the configuration of a region, loaded once.
func (a *asg) config(ctx context.Context, region string) (aws.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.configs[region]; ok {
		return c, nil
	}
	c, err := a.o.Config(ctx, region)
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the AWS configuration for %s: %w", region, err)
	}
	a.configs[region] = c
	return c, nil
}

// describe reads the group, and rejects a group that another autoscaler sizes.
func (a *asg) describe(ctx context.Context, pool *v1alpha1.GPUNodePool) (*autoscaling.Client, *types.AutoScalingGroup, error) {
	ref := pool.Spec.Provider.ASG
	config, err := a.config(ctx, ref.Region)
	if err != nil {
		return nil, nil, err
	}
	c := autoscaling.NewFromConfig(config)
	out, err := c.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{ref.Name}})
	if err != nil {
		return nil, nil, fmt.Errorf("describing Auto Scaling group %s in %s: %w", ref.Name, ref.Region, err)
	}
	if len(out.AutoScalingGroups) == 0 {
		return nil, nil, &Problem{ReasonNoTarget, fieldASG + ".name",
			fmt.Sprintf("there is no Auto Scaling group %s in %s", ref.Name, ref.Region), "create it, or correct name and region"}
	}
	group := &out.AutoScalingGroups[0]
	if group.Status != nil && *group.Status != "" {
		return nil, nil, &Problem{ReasonNoTarget, fieldASG + ".name",
			fmt.Sprintf("Auto Scaling group %s: %s", ref.Name, *group.Status), "delete the pool too, or name another"}
	}
	if group.DesiredCapacity == nil { // it is not 0: a write would shrink the group
		return nil, nil, fmt.Errorf("describing Auto Scaling group %s in %s: the answer has no size", ref.Name, ref.Region)
	}
	if err := inNodes(group); err != nil {
		return nil, nil, err
	}
	allowed := ""
	for _, tag := range group.Tags {
		if aws.ToString(tag.Key) == poolTag {
			allowed = aws.ToString(tag.Value)
		}
		if aws.ToString(tag.Key) == caEnabledTag {
			return nil, nil, &Problem{ReasonForeign, fieldASG + ".name",
				fmt.Sprintf("Auto Scaling group %s has the tag %s: cluster-autoscaler sizes it", ref.Name, caEnabledTag),
				"two autoscalers on one pool undo each other's work: remove the tag, or the pool"}
		}
	}
	if allowed != pool.Name {
		return nil, nil, &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("Auto Scaling group %s has the tag %s=%q, not %q: it is not for this pool", ref.Name, poolTag, allowed, pool.Name),
			fmt.Sprintf("tag the group %s=%s", poolTag, pool.Name)}
	}
	return c, group, nil
}

// inNodes rejects a group whose size is not a number of nodes.
func inNodes(group *types.AutoScalingGroup) error {
	unit := aws.ToString(group.DesiredCapacityType)
	weight := ""
	if m := group.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		for _, o := range m.LaunchTemplate.Overrides {
			weight = cmp.Or(weight, weighs(o.WeightedCapacity))
		}
	}
	for _, i := range group.Instances {
		weight = cmp.Or(weight, weighs(i.WeightedCapacity))
	}
	switch {
	case unit != "" && unit != "units":
		return &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("the size of Auto Scaling group %s is a number of %s", aws.ToString(group.AutoScalingGroupName), unit), "set its DesiredCapacityType to units"}
	case weight != "":
		return &Problem{ReasonTarget, fieldASG + ".name",
			fmt.Sprintf("an instance of Auto Scaling group %s counts %s", aws.ToString(group.AutoScalingGroupName), weight), "remove the weights of its instance types"}
	}
	return nil
}

// weighs returns a weight other than one, empty otherwise.
func weighs(w *string) string {
	if s := aws.ToString(w); s != "1" {
		return s
	}
	return ""
}

// priceEvery is the interval of reading the spot price, which moves slowly.
const priceEvery = 5 * time.Minute

type spotPrice struct {
	asked time.Time
	price *float64
}

// spotPrice returns the highest price among the group's zones in US dollars an hour, nil if
// unknown. While it cannot be read the last price is used: without one the pool would seem to cost nothing.
func (a *asg) spotPrice(ctx context.Context, pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) *float64 {
	ref := pool.Spec.Provider.ASG
	if !pool.Spec.Spot || ref.InstanceType == "" {
		return nil
	}
	now := a.o.Now()
	a.mu.Lock()
	last := a.prices[pool.Name]
	a.mu.Unlock()
	if !last.asked.IsZero() && now.Sub(last.asked) < priceEvery {
		return last.price
	}
	next := spotPrice{asked: now, price: last.price}
	price, err := a.askPrice(ctx, ref, group.AvailabilityZones)
	if a.warn("spot price", pool, err); err == nil {
		next.price = price
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prices[pool.Name] = next
	return next.price
}

func (a *asg) askPrice(ctx context.Context, ref *v1alpha1.ASGProvider, zones []string) (*float64, error) {
	config, err := a.config(ctx, ref.Region)
	if err != nil {
		return nil, err
	}
	out, err := ec2.NewFromConfig(config).DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{ec2types.InstanceType(ref.InstanceType)}, ProductDescriptions: []string{"Linux/UNIX"},
		StartTime: aws.Time(a.o.Now()),
	})
	if err != nil {
		return nil, fmt.Errorf("reading spot prices: %w", err)
	}
	return highest(out.SpotPriceHistory, zones)
}

// highest of the prices in the zones. A history from now on has one of each zone.
func highest(history []ec2types.SpotPrice, zones []string) (*float64, error) {
	var out *float64
	for _, item := range history {
		zone := aws.ToString(item.AvailabilityZone)
		p, err := strconv.ParseFloat(aws.ToString(item.SpotPrice), 64)
		if err != nil || !(p >= 0 && p < 1e6) {
			return nil, fmt.Errorf("reading spot prices: %q in %s is not a price", aws.ToString(item.SpotPrice), zone)
		}
		if slices.Contains(zones, zone) && (out == nil || p > *out) {
			out = &p
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no spot price in the zones %v", zones)
	}
	return out, nil
}

package pools

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestMoto runs the provider over a fake of AWS by others, a server of moto (github.com/getmoto/moto). It starts
// instances at once, terminates them at once, and knows no interruptions: messages about these are ours.
func TestMoto(t *testing.T) {
	url := os.Getenv("GPUSCALE_TEST_MOTO")
	if url == "" {
		t.Skip("GPUSCALE_TEST_MOTO is not the URL of a moto server")
	}
	w := newASGWorld(t)
	config, err := w.config(t.Context(), "eu-west-1")
	require.NoError(t, err)
	config.BaseEndpoint, w.now = &url, time.Now()
	w.asg = NewASG(ASGOptions{Live: w.client, Now: func() time.Time { return w.now }, Config: func(ctx context.Context, _ string) (aws.Config, error) { return config, nil }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})

	reset, err := http.Post(url+"/moto-api/reset", "", nil)
	require.NoError(t, err)
	require.NoError(t, reset.Body.Close())
	c, name := autoscaling.NewFromConfig(config), aws.String("h100")
	if _, err := w.list(); ReasonOf(err) != ReasonNoTarget {
		t.Errorf("without a group: %v", err)
	}
	const instances = "g4dn.xlarge" // moto has prices of these
	_, err = c.CreateLaunchConfiguration(t.Context(), &autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: name, ImageId: aws.String("ami-12c6146b"), InstanceType: aws.String(instances)})
	require.NoError(t, err)
	_, err = c.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: name, LaunchConfigurationName: name, AvailabilityZones: []string{"eu-west-1a"},
		MinSize: aws.Int32(1), MaxSize: aws.Int32(6), DesiredCapacity: aws.Int32(3), Tags: []types.Tag{{Key: aws.String(poolTag), Value: aws.String("p"), PropagateAtLaunch: aws.Bool(true)}}})
	require.NoError(t, err)

	listed := func(when string, target int) Listing {
		t.Helper()
		l, err := w.list()
		if err != nil || l.Target != target || len(l.Counted) != target || l.Failed != 0 {
			t.Errorf("%s: listed %+v, %v", when, l, err)
		}
		return l
	}
	for i, id := range listed("three instances", 3).Counted { // the nodes register
		n := w.node(fmt.Sprintf("w-%d", i))
		n.Spec.ProviderID = "aws:///eu-west-1a/" + id
		require.NoError(t, w.client.Update(t.Context(), n))
	}
	for range 2 {
		require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 3, 5))
	}
	listed("two more", 5)
	if err := w.asg.SetSize(t.Context(), w.pool, 5, 7); ReasonOf(err) != ReasonTarget {
		t.Errorf("more than the group's maximum: %v", err)
	}
	processes := []string{"Launch"}
	_, err = c.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: processes})
	require.NoError(t, err)
	if err := w.asg.SetSize(t.Context(), w.pool, 5, 6); ReasonOf(err) != ReasonTarget {
		t.Errorf("a group that starts nothing: %v", err)
	}
	_, err = c.ResumeProcesses(t.Context(), &autoscaling.ResumeProcessesInput{AutoScalingGroupName: name, ScalingProcesses: processes})
	require.NoError(t, err)
	first, second := w.node("w-0"), w.node("w-1")
	apart := []string{LastPart(first.Spec.ProviderID)}
	_, err = c.EnterStandby(t.Context(), &autoscaling.EnterStandbyInput{AutoScalingGroupName: name, InstanceIds: apart, ShouldDecrementDesiredCapacity: aws.Bool(true)})
	require.NoError(t, err)
	if l := listed("one in Standby", 4); !slices.Equal(l.Going, apart) {
		t.Errorf("one in Standby: listed %+v", l)
	}
	if err := w.asg.Delete(t.Context(), w.pool, first, false); !unnamed(err) {
		t.Errorf("one in Standby is removed: %v", err)
	}
	_, err = c.ExitStandby(t.Context(), &autoscaling.ExitStandbyInput{AutoScalingGroupName: name, InstanceIds: apart})
	require.NoError(t, err)
	require.NoError(t, w.asg.Delete(t.Context(), w.pool, first, false))
	if l := listed("one is removed", 4); slices.Contains(l.Counted, LastPart(first.Spec.ProviderID)) || !slices.Contains(l.Counted, LastPart(second.Spec.ProviderID)) {
		t.Errorf("one is removed: counted %v", l.Counted)
	}
	if err := w.asg.Delete(t.Context(), w.pool, first, false); !unnamed(err) {
		t.Errorf("one is removed again: %v", err)
	}
	require.NoError(t, w.asg.Delete(t.Context(), w.pool, second, true))
	if l := listed("one is replaced", 4); slices.Contains(l.Counted, LastPart(second.Spec.ProviderID)) {
		t.Errorf("one is replaced: counted %v", l.Counted)
	}
	for _, n := range []*corev1.Node{first, second} { // their machines are gone
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), n)))
	}
	w.now = w.now.Add(time.Hour) // in which no other node has joined the cluster
	require.NoError(t, w.asg.Withdraw(t.Context(), w.pool, 4))
	listed("those without a node are withdrawn", 1)
	if err := w.asg.Delete(t.Context(), w.pool, w.node("w-2"), false); ReasonOf(err) != ReasonTarget {
		t.Errorf("less than the group's minimum: %v", err)
	}

	q := sqs.NewFromConfig(config)
	queue, err := q.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: name})
	require.NoError(t, err)
	w.pool.Spec.Provider.ASG.InterruptionQueue = *queue.QueueUrl
	last := w.node("w-2")
	for _, body := range []string{"hello", event("EC2 Spot Instance Interruption Warning", LastPart(last.Spec.ProviderID), w.now)} {
		_, err := q.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: &body})
		require.NoError(t, err)
	}
	if l := listed("an interruption", 1); len(l.Notices) != 1 || l.Notices[0].Instance != LastPart(last.Spec.ProviderID) {
		t.Errorf("an interruption: listed %+v", l)
	}
	w.pool.Spec.Spot, w.pool.Spec.Provider.ASG.InstanceType = true, instances
	if l := listed("a spot price", 1); l.SpotPrice == nil || *l.SpotPrice <= 0 {
		t.Errorf("a spot price: listed %+v", l)
	}
}

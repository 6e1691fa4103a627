package pools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// moto is a server of moto (github.com/getmoto/moto), a fake of AWS by others. It starts instances at once, terminates
// them at once, and knows no interruptions.
type moto struct {
	*asgWorld
	aws     aws.Config
	scaling *autoscaling.Client
}

var h100 = aws.String("h100")

// motoType is a type of instances of which moto knows prices.
const motoType = "g4dn.xlarge"

// newMoto returns the server at GPUSCALE_TEST_MOTO with a group of three, which the nodes of the world are.
func newMoto(t *testing.T) *moto {
	url := os.Getenv("GPUSCALE_TEST_MOTO")
	if url == "" {
		t.Skip("GPUSCALE_TEST_MOTO is not the URL of a moto server")
	}
	w := &moto{asgWorld: newASGWorld(t)}
	config, err := w.config(t.Context(), "eu-west-1")
	require.NoError(t, err)
	config.BaseEndpoint, w.now = &url, time.Now()
	w.aws, w.scaling = config, autoscaling.NewFromConfig(config)
	reset, err := http.Post(url+"/moto-api/reset", "", nil)
	require.NoError(t, err)
	require.NoError(t, reset.Body.Close())
	_, err = w.scaling.CreateLaunchConfiguration(t.Context(), &autoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: h100, ImageId: aws.String("ami-12c6146b"), InstanceType: aws.String(motoType)})
	require.NoError(t, err)
	_, err = w.scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: h100, LaunchConfigurationName: h100, AvailabilityZones: []string{"eu-west-1a"},
		MinSize: aws.Int32(1), MaxSize: aws.Int32(6), DesiredCapacity: aws.Int32(3), Tags: []types.Tag{{Key: aws.String(poolTag), Value: aws.String("p"), PropagateAtLaunch: aws.Bool(true)}}})
	require.NoError(t, err)
	for i, instance := range w.group().Instances {
		n := w.node(fmt.Sprintf("w-%d", i))
		w.identify(n, "aws:///eu-west-1a/"+*instance.InstanceId)
	}
	return w
}

// group is the group as moto has it.
func (w *moto) group() types.AutoScalingGroup {
	w.t.Helper()
	out, err := w.scaling.DescribeAutoScalingGroups(w.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{*h100}})
	require.NoError(w.t, err)
	return out.AutoScalingGroups[0]
}

// TestMoto runs the provider of Auto Scaling groups over moto. Messages about interruptions are ours.
func TestMoto(t *testing.T) {
	w := newMoto(t)
	w.asg = NewASG(ASGOptions{Live: w.client, Now: func() time.Time { return w.now }, Config: func(context.Context, string) (aws.Config, error) { return w.aws, nil }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	c, name := w.scaling, h100
	listed := func(when string, target int) Listing {
		t.Helper()
		l, err := w.list()
		if err != nil || l.Target != target || len(l.Counted) != target || l.Failed != 0 {
			t.Errorf("%s: listed %+v, %v", when, l, err)
		}
		return l
	}
	listed("three instances", 3)
	for range 2 {
		require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 3, 5))
	}
	listed("two more", 5)
	if err := w.asg.SetSize(t.Context(), w.pool, 5, 7); ReasonOf(err) != ReasonTarget {
		t.Errorf("more than the group's maximum: %v", err)
	}
	processes := []string{"Launch"}
	_, err := c.SuspendProcesses(t.Context(), &autoscaling.SuspendProcessesInput{AutoScalingGroupName: name, ScalingProcesses: processes})
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

	q := sqs.NewFromConfig(w.aws)
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
	w.pool.Spec.Spot, w.pool.Spec.Provider.ASG.InstanceType = true, motoType
	if l := listed("a spot price", 1); l.SpotPrice == nil || *l.SpotPrice <= 0 {
		t.Errorf("a spot price: listed %+v", l)
	}
	w.pool.Spec.Provider.ASG.Name = "other"
	if _, err := w.list(); ReasonOf(err) != ReasonNoTarget {
		t.Errorf("a group that does not exist: %v", err)
	}
}

// TestMotoOverGRPC runs the provider of node groups over the server of cluster-autoscaler's external gRPC protocol that
// wraps its built-in providers: the one for AWS, over moto. The server lists a deleted instance as before until it is
// asked to read AWS again.
func TestMotoOverGRPC(t *testing.T) {
	program := os.Getenv("GPUSCALE_TEST_EXTERNALGRPC")
	if program == "" {
		t.Skip("GPUSCALE_TEST_EXTERNALGRPC is not cluster-autoscaler's external-grpc-cloud-provider-service")
	}
	w := newMoto(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	file := filepath.Join(t.TempDir(), "aws.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "[ServiceOverride \"1\"]\nService=autoscaling\nRegion=eu-west-1\nSigningRegion=eu-west-1\nURL=%s\n", *w.aws.BaseEndpoint), 0o600))
	server := exec.CommandContext(t.Context(), program, "--cloud-provider=aws", "--cloud-config="+file, "--nodes=1:6:"+*h100, "--address="+address)
	server.Env = append(os.Environ(), "AWS_REGION=eu-west-1", "AWS_EC2_METADATA_DISABLED=true", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=not-a-secret")
	server.Stdout, server.Stderr = t.Output(), t.Output()
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Wait() })

	cloud, err := externalgrpc.New(externalgrpc.Config{Address: address})
	require.NoError(t, err)
	nodes := NewGRPC(w.client, map[string]*externalgrpc.Client{"cloud": cloud}, func() time.Time { return w.now })
	w.pool.Spec.Provider = v1alpha1.Provider{ExternalGRPC: &v1alpha1.ExternalGRPCProvider{Name: "cloud", NodeGroup: *h100}}
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	until := func(what string, target int, done func(Listing) bool) {
		t.Helper()
		require.NoError(t, await.Until(within, func(ctx context.Context) error {
			w.now = time.Now()
			nodes.memo.forget(w.pool)
			l, err := nodes.List(ctx, w.pool)
			if err != nil || l.Target != target || !done(l) {
				return fmt.Errorf("%s: listed %+v, %w", what, l, err)
			}
			return nil
		}))
		if size := int(*w.group().DesiredCapacity); size != target {
			t.Errorf("%s: the provider has %d nodes, AWS %d", what, target, size)
		}
	}
	until("the group", 3, func(l Listing) bool { return len(l.Going) == 0 && l.described != nil })
	require.NoError(t, nodes.SetSize(t.Context(), w.pool, 3, 5))
	until("two more", 5, func(l Listing) bool { return l.Failed == 0 })
	first := LastPart(w.node("w-0").Spec.ProviderID)
	for range 3 { // as every reconcile does until the node is gone
		require.NoError(t, nodes.Delete(t.Context(), w.pool, w.node("w-0"), false))
	}
	until("one is removed", 4, func(l Listing) bool { return slices.Equal(l.Going, []string{first}) })
	require.NoError(t, nodes.SetSize(t.Context(), w.pool, 4, 5))
	until("one more", 5, func(Listing) bool { return true })
	until("the provider has read AWS", 5, func(l Listing) bool { return len(l.Going) == 0 })
	if p := (*Problem)(nil); !errors.As(nodes.SetSize(t.Context(), w.pool, 5, 7), &p) || p.Field != "spec.max" {
		t.Errorf("more than the group's maximum: %v", p)
	}
}

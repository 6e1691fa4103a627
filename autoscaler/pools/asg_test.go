package pools

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

func TestGroupScalesAndInstanceIsTerminatedByID(t *testing.T) {
	w := newASGWorld(t)
	for range 2 {
		require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 0, 5))
	}
	require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 0, 4))
	if l, err := w.asg.List(t.Context(), w.pool); err != nil || l.Target != 5 || w.fake.desired != 5 {
		t.Errorf("listed %+v, %v; the group requests %d", l, err, w.fake.desired)
	}
	for range 3 { // as every reconcile does until the node is gone
		require.NoError(t, w.asg.Delete(t.Context(), w.pool, w.node("w-1"), false))
	}
	if got := w.states(); got != "InService Terminating InService" || w.fake.desired != 4 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
	if l, err := w.asg.List(t.Context(), w.pool); err != nil || fmt.Sprint(l.Going) != "[i-0123456789abcdef1]" {
		t.Errorf("listed %+v, %v", l, err)
	}
	described := w.fake.described
	for range 9 {
		_, err := w.asg.List(t.Context(), w.pool)
		require.NoError(t, err)
		w.now = w.now.Add(time.Second)
	}
	if w.fake.refused != 0 || w.fake.described != described {
		t.Errorf("%d requests were not signed; described %d times in 9 s", w.fake.refused, w.fake.described-described)
	}
}

func TestInstanceMustMatchTheNode(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*asgWorld, *corev1.Node)
		want   func(error) bool
	}{
		"another UID":  {func(_ *asgWorld, n *corev1.Node) { n.UID = "older" }, apierrors.IsConflict},
		"no instance":  {func(w *asgWorld, n *corev1.Node) { w.identify(n, "") }, unnamed},
		"other zone":   {func(w *asgWorld, n *corev1.Node) { w.identify(n, "aws:///eu-west-1b/i-0123456789abcdef1") }, unnamed},
		"other cloud":  {func(w *asgWorld, n *corev1.Node) { w.identify(n, "gce://p/eu-west-1a/i-0123456789abcdef1") }, unnamed},
		"not in group": {func(w *asgWorld, _ *corev1.Node) { w.fake.instances[1].ID = "i-00000000" }, unnamed},
		"other pool": {func(_ *asgWorld, n *corev1.Node) { n.Labels = nil }, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "does not belong to pool p")
		}},
	} {
		w := newASGWorld(t)
		n := w.node("w-1")
		c.change(w, n)
		if err := w.asg.Delete(t.Context(), w.pool, n, false); !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
		if got := w.states(); got != "InService InService InService" || w.fake.desired != 3 {
			t.Errorf("%s: instances %s, the group requests %d", what, got, w.fake.desired)
		}
	}
}

// TestStandbyIsNotCounted: a group's size does not count instances in Standby. Terminating one with a smaller size
// would make AWS terminate another one as well.
func TestStandbyIsNotCounted(t *testing.T) {
	w := newASGWorld(t)
	w.fake.instances[1].State, w.fake.desired = "Standby", 2
	if l, err := w.list(); err != nil || l.Target != 2 || fmt.Sprint(l.Going) != "[i-0123456789abcdef1]" {
		t.Errorf("listed %+v, %v", l, err)
	}
	for what, err := range map[string]error{"removed": w.asg.Delete(t.Context(), w.pool, w.node("w-1"), false), "replaced": w.asg.Delete(t.Context(), w.pool, w.node("w-1"), true)} {
		if !unnamed(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.fake.desired = 3                                // one more is requested, and not delivered
	w.fake.instances[2].State = "ReplacingRootVolume" // it keeps its place
	for i := range w.fake.instances {
		w.fake.instances[i].Protected = true
	}
	require.NoError(t, w.asg.Withdraw(t.Context(), w.pool, w.fake.desired))
	if got := w.states(); got != "InService Standby ReplacingRootVolume" || w.fake.desired != 2 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
}

// identify gives a node another providerID.
func (w *asgWorld) identify(n *corev1.Node, id string) {
	n.Spec.ProviderID = id
	require.NoError(w.t, w.client.Update(w.t.Context(), n))
}

func unnamed(err error) bool { return errors.Is(err, ErrUnnamed) }

func TestGroupProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change                func(*asgWorld)
		reason, field, remedy string
	}{
		"no group": {func(w *asgWorld) { w.pool.Spec.Provider.ASG.Name = "h200" }, ReasonNoTarget, "spec.provider.asg.name", "create it"},
		"going":    {func(w *asgWorld) { w.fake.status = "Delete in progress" }, ReasonNoTarget, "spec.provider.asg.name", "name another"},
		"cluster-autoscaler": {func(w *asgWorld) { w.fake.tags["k8s.io/cluster-autoscaler/enabled"] = "true" },
			ReasonForeign, "spec.provider.asg.name", "remove the tag"},
		"a size in cores": {func(w *asgWorld) { w.fake.unit = "vcpu" }, ReasonTarget, "spec.provider.asg.name", "DesiredCapacityType"},
		"weights":         {func(w *asgWorld) { w.fake.weight = "8" }, ReasonTarget, "spec.provider.asg.name", "weights"},
		"not for this pool": {func(w *asgWorld) { w.fake.tags[poolTag] = "q" },
			ReasonTarget, "spec.provider.asg.name", "gpuscale.io/pool=p"},
		"for no pool": {func(w *asgWorld) { delete(w.fake.tags, poolTag) },
			ReasonTarget, "spec.provider.asg.name", "gpuscale.io/pool=p"},
		"bad taint": {func(w *asgWorld) { w.fake.tags[templateTag+"taint/dedicated"] = "gpu" },
			ReasonTarget, "spec.provider.asg.name", "correct or remove the tag"},
		"other GPUs": {func(w *asgWorld) { w.fake.tags[templateTag+"resources/nvidia.com/gpu"] = "8" },
			ReasonTarget, "spec.template.gpus", "correct the one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newASGWorld(t)
			c.change(w)
			_, err := w.list()
			p := (*Problem)(nil)
			if !errors.As(err, &p) || p.Reason != c.reason || p.Field != c.field || !strings.Contains(p.Remedy, c.remedy) {
				t.Errorf("%v", err)
			}
		})
	}
	w := newASGWorld(t)
	w.fake.min, w.fake.max = 3, 4
	for field, err := range map[string]error{
		"spec.max": w.asg.SetSize(t.Context(), w.pool, 0, 5),
		"spec.min": w.asg.Delete(t.Context(), w.pool, w.node("w-1"), false),
	} {
		p := (*Problem)(nil)
		if !errors.As(err, &p) || p.Field != field {
			t.Errorf("%v, want a problem of %s", err, field)
		}
	}
	w.fake.unit, w.fake.weight = "units", "1"
	if _, err := w.list(); err != nil {
		t.Errorf("a size in nodes, stated explicitly: %v", err)
	}
	w.fake.min, w.fake.desired = 0, -1
	if err := w.asg.SetSize(t.Context(), w.pool, 0, 1); err == nil || w.fake.desired != -1 {
		t.Errorf("an answer without a size is taken for 0: %v", err)
	}
	w.fake.fail = "Throttling"
	if _, err := w.list(); err == nil || !strings.Contains(err.Error(), "h100") {
		t.Errorf("an error of AWS: %v", err)
	}
}

func TestTemplateFromTags(t *testing.T) {
	w := newASGWorld(t)
	for k, v := range map[string]string{
		"label/topology.kubernetes.io/zone": "eu-west-1a", "label/zone": "the pool says a", "taint/gpu": "yes:NoSchedule",
		"taint/dedicated": "ml:NoExecute", "resources/rdma/hca": "8", "resources/hugepages-2Mi": "1Gi", "resources/nvidia.com/gpu": "2", "resources/cpu": "192",
		"autoscaling-options/scaledownunneededtime": "1m0s",
	} {
		w.fake.tags[templateTag+k] = v
	}
	w.pool.Spec.Template.Resources = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Ki")}
	w.pool.Spec.Provider.ASG.InstanceType = "p5.48xlarge"
	l, err := w.list()
	require.NoError(t, err)
	got, err := Template(w.pool, nil, l)
	require.NoError(t, err)
	if got.Labels["topology.kubernetes.io/zone"] != "eu-west-1a" || got.Labels["zone"] != "a" || got.Labels[corev1.LabelTopologyRegion] != "eu-west-1" ||
		got.Labels[corev1.LabelInstanceTypeStable] != "p5.48xlarge" || got.Labels[corev1.LabelArchStable] != "amd64" {
		t.Errorf("labels %v", got.Labels)
	}
	if text := fmt.Sprint(got.Taints, got.Others, got.CPUMilli); text != "[{gpu yes NoSchedule} {dedicated ml NoExecute}] [{hugepages-2Mi 4096} {rdma/hca 8}] 64000" {
		t.Error(text)
	}
}

func TestSpotPrice(t *testing.T) {
	w := newASGWorld(t)
	w.pool.Spec.Provider.ASG.InstanceType = "p5.48xlarge"
	w.fake.prices = map[string]string{"eu-west-1a": "21.500000", "eu-west-1b": "24.120000", "eu-west-1c": "90"}
	if l, err := w.list(); err != nil || l.SpotPrice != nil {
		t.Errorf("a pool that is not spot: %+v, %v", l, err)
	}
	w.pool.Spec.Spot = true
	if l, err := w.list(); err != nil || l.SpotPrice == nil || *l.SpotPrice != 24.12 {
		t.Errorf("%+v, %v; want the highest of the group's zones", l, err)
	}
	w.fake.prices = nil
	for range 30 { // hours
		if l, err := w.list(); err != nil || l.SpotPrice == nil || *l.SpotPrice != 24.12 {
			t.Fatalf("%+v, %v; want the last price while none can be read", l, err)
		}
		w.now = w.now.Add(priceEvery)
	}
	w = newASGWorld(t)
	w.pool.Spec.Spot, w.pool.Spec.Provider.ASG.InstanceType = true, "p5.48xlarge"
	if l, err := w.list(); err != nil || l.SpotPrice != nil || l.Target != 3 {
		t.Errorf("an unknown price is not a number, and keeps nothing else: %+v, %v", l, err)
	}
}

// TestFailureIsLoggedOnce: what AWS refuses for hours is logged once, and again after it has succeeded.
func TestFailureIsLoggedOnce(t *testing.T) {
	w := newASGWorld(t)
	var log strings.Builder
	w.asg = NewASG(ASGOptions{Live: w.client, Now: func() time.Time { return w.now }, Config: w.config, Log: slog.New(slog.NewTextHandler(&log, nil))})
	w.pool.Spec.Spot, w.pool.Spec.Provider.ASG.InstanceType = true, "p5.48xlarge"
	for i, want := range []int{1, 1, 1, 1, 2} {
		if w.fake.prices = nil; i == 3 {
			w.fake.prices = map[string]string{"eu-west-1a": "21.5"}
		}
		_, err := w.list()
		require.NoError(t, err)
		if n := strings.Count(log.String(), `what="spot price"`); n != want {
			t.Errorf("after list %d it is logged %d times, want %d", i, n, want)
		}
		w.now = w.now.Add(priceEvery)
	}
}

func event(kind, id string, at time.Time) string {
	return fmt.Sprintf(`{"version":"0","id":"12345678-1234-1234-1234-123456789012","detail-type":%q,"source":"aws.ec2","account":"123456789012","time":%q,"region":"eu-west-1","resources":["arn:aws:ec2:eu-west-1a:instance/%s"],"detail":{"instance-id":%q,"instance-action":"terminate"}}`,
		kind, at.Format(time.RFC3339), id, id)
}

// health is AWS Health's event about two instances of the group and a volume, as its schema of events has it.
func health(service, category, status string, starts time.Time) string {
	return fmt.Sprintf(`{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602","detail-type":"AWS Health Event","source":"aws.health","account":"123456789012","time":%q,"region":"eu-west-1","resources":["i-0123456789abcdef1"],"detail":{"eventArn":"arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/1","service":%q,"eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","eventTypeCategory":%q,"eventScopeCode":"ACCOUNT_SPECIFIC","statusCode":%q,"startTime":%q,"affectedEntities":[{"entityValue":"i-0123456789abcdef1","status":"PENDING"},{"entityValue":"i-0123456789abcdef2"},{"entityValue":"vol-0123456789abcdef2"}]}}`,
		testNow.Format(time.RFC3339), service, category, status, starts.UTC().Format(http.TimeFormat))
}

func TestNotices(t *testing.T) {
	w := newASGWorld(t)
	w.pool.Spec.Provider.ASG.InterruptionQueue = testQueue
	const week = 7 * 24 * time.Hour
	const spot, rebalance, reservation = "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Capacity Reservation Instance Interruption Warning"
	w.fake.messages = map[string]string{
		"a": event(spot, "i-0123456789abcdef1", testNow),
		"b": event(rebalance, "i-0123456789abcdef2", testNow),
		"c": event(spot, "i-99999999", testNow),                                              // of another group
		"d": event(spot, "i-0123456789abcdef0", testNow.Add(-2*noticeLife)),                  // long over
		"e": event("EC2 Instance State-change Notification", "i-0123456789abcdef0", testNow), // none
		"f": "{",
		"h": health("EC2", "scheduledChange", "upcoming", testNow.Add(week)),
		"i": health("EC2", "scheduledChange", "closed", testNow.Add(time.Hour)),
		"j": health("RDS", "scheduledChange", "upcoming", testNow.Add(time.Hour)),
		"k": health("EC2", "accountNotification", "open", testNow.Add(time.Hour)),
		"g": strings.Replace(event(reservation, "i-0123456789abcdef0", testNow), "terminate", `terminate","instance-termination-time":"`+testNow.Add(40*time.Minute).Format(time.RFC3339), 1),
	}
	for i := range 80 { // all are read in one reconcile
		w.fake.messages[fmt.Sprint(i)] = event(spot, fmt.Sprintf("i-%08d", i), testNow)
	}
	l, err := w.list()
	require.NoError(t, err)
	if got, want := fmt.Sprint(l.Notices), fmt.Sprint([]Notice{{"i-0123456789abcdef0", testNow, testNow.Add(40 * time.Minute)}, {"i-0123456789abcdef1", testNow, testNow.Add(spotNotice)}, {"i-0123456789abcdef2", testNow, testNow.Add(week)}}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(w.fake.messages) != 85 || len(w.fake.hidden) != 91 {
		t.Errorf("messages %v: what is still true stays for the next leader, the rest goes", w.fake.messages)
	}
	w.now = w.now.Add(week + noticeLife + time.Second)
	clear(w.fake.hidden)
	if l, err := w.list(); err != nil || len(l.Notices) != 0 || len(w.fake.messages) != 0 {
		t.Errorf("old notices: %+v, %v, messages %v", l, err, w.fake.messages)
	}
}

// TestSoonerNoticeStays: of two notices about an instance the one with the earlier end counts, in whatever order they
// are read.
func TestSoonerNoticeStays(t *testing.T) {
	might, sooner, later := Notice{"i", testNow, time.Time{}}, Notice{"i", testNow, testNow.Add(time.Minute)}, Notice{"i", testNow, testNow.Add(time.Hour)}
	for _, order := range [][]Notice{{might, later, sooner}, {sooner, later, might}, {later, sooner, might}, {sooner, might, later}} {
		a := &asg{notices: map[string]Notice{}}
		for _, l := range order {
			a.note(l)
		}
		if got := a.notices["i"]; got != sooner {
			t.Errorf("%v: %v", order, got)
		}
	}
}

// TestGroupWithdraws: the group's size becomes the number of its instances, and none of them goes. If another starts
// between the reading and the write, AWS chooses an instance to terminate, so each must be protected from that.
func TestGroupWithdraws(t *testing.T) {
	w := newASGWorld(t)
	require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 0, 5))
	var problem *Problem
	if err := w.asg.Withdraw(t.Context(), w.pool, w.fake.desired); !errors.As(err, &problem) || w.fake.desired != 5 {
		t.Errorf("%v, the group requests %d: its instances are not protected from scale-in", err, w.fake.desired)
	}
	for i := range w.fake.instances {
		w.fake.instances[i].Protected = true
	}
	for range 2 {
		require.NoError(t, w.asg.Withdraw(t.Context(), w.pool, w.fake.desired))
	}
	if got := w.states(); got != "InService InService InService" || w.fake.desired != 3 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
}

// TestInstanceNeverJoins: an instance without a node half an hour after it was first seen is terminated with its
// request, whether the group's instances are protected or not; at the group's minimum AWS starts another one. A younger
// instance stays. While the instance of a node is unknown, all stay, and the error names that node.
func TestInstanceNeverJoins(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*asgWorld)
		states string // the last two are of the one that never joins, and of the younger one
		size   int
		err    string
	}{
		"withdrawn":             {func(*asgWorld) {}, "InService InService InService Terminating InService", 4, ""},
		"at the minimum":        {func(w *asgWorld) { w.fake.min = 5 }, "InService InService InService Terminating InService", 5, ""},
		"slow pool":             {func(w *asgWorld) { w.pool.Spec.ReadyAfter = &metav1.Duration{Duration: time.Hour} }, "InService InService InService InService InService", 5, ""},
		"of another label":      {func(w *asgWorld) { w.join("i-0123456789abcdef3", nil) }, "InService InService InService InService InService", 5, ""},
		"node without identity": {func(w *asgWorld) { w.join("", nil) }, "InService InService InService InService InService", 5, "node late has no providerID"},
		"and a request": {func(w *asgWorld) {
			for i := range w.fake.instances {
				w.fake.instances[i].Protected = true
			}
			w.fake.desired = 7
			w.join("", nil)
		}, "InService InService InService InService InService", 5, "node late has no providerID"},
	} {
		w := newASGWorld(t)
		require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 0, 5))
		w.fake.instances = append(w.fake.instances, instance{ID: "i-0123456789abcdef3", State: "InService"})
		_, err := w.list()
		require.NoError(t, err)
		w.now = w.now.Add(20 * time.Minute)
		w.fake.instances = append(w.fake.instances, instance{ID: "i-0123456789abcdef4", State: "InService"})
		_, err = w.list()
		require.NoError(t, err)
		w.now = w.now.Add(20 * time.Minute)
		c.change(w)
		for range 2 {
			if err := w.asg.Withdraw(t.Context(), w.pool, w.fake.desired); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := w.states(); got != c.states || w.fake.desired != c.size {
			t.Errorf("%s: instances %s, the group requests %d", name, got, w.fake.desired)
		}
	}
}

// join adds a node of an instance.
func (w *asgWorld) join(id string, labels map[string]string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: labels}}
	if id != "" {
		n.Spec.ProviderID = "aws:///eu-west-1a/" + id
	}
	require.NoError(w.t, w.client.Create(w.t.Context(), n))
}

// TestGroupIsBusy: another change of the group that is under way is no failure of its pool.
func TestGroupIsBusy(t *testing.T) {
	for _, code := range []string{"ScalingActivityInProgress", "ResourceContention"} {
		w := newASGWorld(t)
		w.fake.contended = code
		for what, err := range map[string]error{"raised": w.asg.SetSize(t.Context(), w.pool, 3, 4), "removed": w.asg.Delete(t.Context(), w.pool, w.node("w-1"), false)} {
			if !errors.Is(err, ErrBusy) {
				t.Errorf("%s, %s: %v", code, what, err)
			}
		}
	}
}

// TestGroupFails: instances that AWS could not start at its latest attempt since the request have failed; while it
// tries again they have not. A group that may start none gets no request, not even for a replacement.
func TestGroupFails(t *testing.T) {
	w := newASGWorld(t)
	w.fake.activities = []activity{{"Failed", testNow.Add(-time.Minute)}}
	w.fake.suspended = "Launch"
	var problem *Problem
	if err := w.asg.SetSize(t.Context(), w.pool, 0, 5); !errors.As(err, &problem) || !strings.Contains(problem.What, "suspended") || w.fake.desired != 3 {
		t.Errorf("%v, the group requests %d", err, w.fake.desired)
	}
	if err := w.asg.Delete(t.Context(), w.pool, w.node("w-1"), true); !errors.As(err, &problem) || w.states() != "InService InService InService" {
		t.Errorf("replaced: %v, instances %s", err, w.states())
	}
	w.fake.suspended = "AZRebalance"
	require.NoError(t, w.asg.SetSize(t.Context(), w.pool, 0, 5))
	for _, c := range []struct {
		activities []activity // since the request, the latest first
		failed     int
	}{
		{nil, 0}, {[]activity{{"Failed", testNow}}, 2}, {[]activity{{"Cancelled", testNow}, {"Failed", testNow}}, 2},
		{[]activity{{"InProgress", testNow}, {"Failed", testNow}}, 0}, {[]activity{{"Successful", testNow}, {"Failed", testNow}}, 0},
		{[]activity{{terminating + "InProgress", testNow}, {terminating + "Successful", testNow}, {"Failed", testNow}}, 2}, {[]activity{{terminating + "Failed", testNow}}, 0},
	} {
		w.fake.activities = append(c.activities, activity{"Failed", testNow.Add(-time.Minute)})
		if l, err := w.list(); err != nil || l.Failed != c.failed || c.failed > 0 && !strings.Contains(l.FailedWhy, "sufficient p5.48xlarge capacity") {
			t.Errorf("%v: listed %+v, %v", c.activities, l, err)
		}
	}
	w.fake.desired, w.fake.activities = 3, []activity{{"Failed", testNow}}
	if l, err := w.list(); err != nil || l.Failed != 0 {
		t.Errorf("none is missing: listed %+v, %v", l, err)
	}
}

// fakeAWS is a fake of the AWS calls in use: Auto Scaling and EC2 by their query protocol, SQS by
// its JSON protocol. It follows the sample answers of the API references, and has one group. The names in its
// answers are those that aws-sdk-go-v2 reads (autoscaling 1.79.4). It has never been compared with AWS itself;
// TestMoto has others' fake in its place.
type fakeAWS struct {
	t *testing.T

	mu                sync.Mutex
	min, max, desired int
	instances         []instance
	tags              map[string]string
	status            string // of a group that is being deleted
	unit, weight      string // of its size, and of its instances
	prices            map[string]string
	messages          map[string]string // by receipt handle
	refused           int               // requests not signed as they should be
	fail              string            // an error code for every request
	contended         string            // an error code for every write
	described         int
	suspended         string          // process
	activities        []activity      // the latest first
	hidden            map[string]bool // messages that were received
}

// terminating is a prefix of an activity's status that makes it one that ends an instance.
const terminating = "terminating "

type activity struct {
	Status string
	At     time.Time
}

type instance struct {
	ID, State string
	Protected bool // from scale-in
}

func (d *fakeAWS) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	auth := r.Header.Get("Authorization")
	if !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(auth, "/eu-west-1/") {
		d.refused++
		http.Error(rw, "<ErrorResponse><Error><Code>MissingAuthenticationToken</Code></Error></ErrorResponse>", http.StatusForbidden)
		return
	}
	if d.fail != "" {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(rw, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>the fake fails as requested</Message></Error></ErrorResponse>", d.fail)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	if action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS."); ok {
		d.sqs(rw, action, body)
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		d.t.Error(err)
	}
	d.query(rw, form)
}

func (d *fakeAWS) query(rw http.ResponseWriter, form url.Values) {
	action := form.Get("Action")
	if d.contended != "" && !strings.HasPrefix(action, "Describe") {
		d.refuse(rw, d.contended, "another change is under way")
		return
	}
	switch action {
	case "DescribeAutoScalingGroups":
		d.described++
		d.describe(rw, form.Get("AutoScalingGroupNames.member.1") == "h100")
	case "SetDesiredCapacity":
		n, err := strconv.Atoi(form.Get("DesiredCapacity"))
		if err != nil || n > d.max || n < d.min {
			d.invalid(rw, fmt.Sprintf("New SetDesiredCapacity value %s is not between %d and %d", form.Get("DesiredCapacity"), d.min, d.max))
			return
		}
		d.desired = n
		_, _ = io.WriteString(rw, `<SetDesiredCapacityResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><ResponseMetadata><RequestId>9fb7e2db</RequestId></ResponseMetadata></SetDesiredCapacityResponse>`)
	case "DescribeScalingActivities":
		_, _ = io.WriteString(rw, `<DescribeScalingActivitiesResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeScalingActivitiesResult><Activities>`)
		for _, a := range d.activities {
			what := "Launching a new EC2 instance"
			if end, ok := strings.CutPrefix(a.Status, terminating); ok {
				what, a.Status = "Terminating EC2 instance: i-0123456789abcdef0", end
			}
			_, _ = fmt.Fprintf(rw, `<member><ActivityId>f9f2d65b</ActivityId><AutoScalingGroupName>h100</AutoScalingGroupName><Cause>a difference between desired and actual capacity</Cause><StartTime>%s</StartTime><Description>%s</Description><StatusCode>%s</StatusCode><StatusMessage>We currently do not have sufficient p5.48xlarge capacity.</StatusMessage><Progress>100</Progress></member>`,
				a.At.Format(time.RFC3339), what, a.Status)
		}
		_, _ = io.WriteString(rw, `</Activities></DescribeScalingActivitiesResult><ResponseMetadata><RequestId>7c6e177f</RequestId></ResponseMetadata></DescribeScalingActivitiesResponse>`)
	case "TerminateInstanceInAutoScalingGroup":
		d.terminate(rw, form)
	case "DescribeSpotPriceHistory":
		if form.Get("InstanceType.1") != "p5.48xlarge" || form.Get("ProductDescription.1") != "Linux/UNIX" || form.Get("StartTime") == "" {
			d.t.Errorf("prices of %v", form)
		}
		_, _ = io.WriteString(rw, `<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>59dbff89</requestId><spotPriceHistorySet>`)
		for zone, price := range d.prices {
			_, _ = fmt.Fprintf(rw, `<item><instanceType>%s</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>%s</spotPrice><timestamp>2026-11-21T08:55:00.000Z</timestamp><availabilityZone>%s</availabilityZone></item>`, form.Get("InstanceType.1"), price, zone)
		}
		_, _ = io.WriteString(rw, `</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>`)
	default:
		d.t.Errorf("the fake knows no action %q", action)
		d.invalid(rw, "no such action")
	}
}

func (d *fakeAWS) terminate(rw http.ResponseWriter, form url.Values) {
	at := slices.IndexFunc(d.instances, func(i instance) bool { return i.ID == form.Get("InstanceId") })
	decrement := form.Get("ShouldDecrementDesiredCapacity") == "true"
	switch {
	case at < 0:
		d.invalid(rw, "Instance Id not found - No managed instance found for instance ID "+form.Get("InstanceId"))
		return
	case decrement && d.desired <= d.min:
		d.invalid(rw, "Currently, desiredSize equals minSize. Terminating instance without replacement will violate group's min size constraint.")
		return
	}
	d.instances[at].State = "Terminating"
	if decrement {
		d.desired--
	}
	_, _ = fmt.Fprintf(rw, `<TerminateInstanceInAutoScalingGroupResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><TerminateInstanceInAutoScalingGroupResult><Activity><ActivityId>cczc44a87</ActivityId><AutoScalingGroupName>h100</AutoScalingGroupName><StatusCode>InProgress</StatusCode><Progress>0</Progress><StartTime>2026-11-21T09:00:00Z</StartTime><Cause>a user request</Cause><Description>Terminating EC2 instance: %s</Description></Activity></TerminateInstanceInAutoScalingGroupResult><ResponseMetadata><RequestId>8d798a29</RequestId></ResponseMetadata></TerminateInstanceInAutoScalingGroupResponse>`, form.Get("InstanceId"))
}

func (d *fakeAWS) invalid(rw http.ResponseWriter, message string) {
	d.refuse(rw, "ValidationError", message)
}

func (d *fakeAWS) refuse(rw http.ResponseWriter, code, message string) {
	rw.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(rw, `<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>9fb7e2db</RequestId></ErrorResponse>`, code, message)
}

var groupAnswer = template.Must(template.New("group").Parse(`<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeAutoScalingGroupsResult><AutoScalingGroups>{{with .}}<member>
<AutoScalingGroupName>h100</AutoScalingGroupName><AutoScalingGroupARN>arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:12345678:autoScalingGroupName/h100</AutoScalingGroupARN>
<MinSize>{{.Min}}</MinSize><MaxSize>{{.Max}}</MaxSize>{{if ge .Desired 0}}<DesiredCapacity>{{.Desired}}</DesiredCapacity>{{end}}<DefaultCooldown>300</DefaultCooldown>
<AvailabilityZones><member>eu-west-1a</member><member>eu-west-1b</member></AvailabilityZones><HealthCheckType>EC2</HealthCheckType><HealthCheckGracePeriod>0</HealthCheckGracePeriod>
<Instances>{{range .Instances}}<member><InstanceId>{{.ID}}</InstanceId><InstanceType>p5.48xlarge</InstanceType><AvailabilityZone>eu-west-1a</AvailabilityZone><LifecycleState>{{.State}}</LifecycleState><HealthStatus>Healthy</HealthStatus>{{with $.Weight}}<WeightedCapacity>{{.}}</WeightedCapacity>{{end}}<ProtectedFromScaleIn>{{.Protected}}</ProtectedFromScaleIn></member>{{end}}</Instances>
<CreatedTime>2026-11-01T09:00:00.000Z</CreatedTime>{{with .Status}}<Status>{{.}}</Status>{{end}}{{with .Suspended}}<SuspendedProcesses><member><ProcessName>{{.}}</ProcessName><SuspensionReason>User suspended at 2026-11-21T08:00:00Z</SuspensionReason></member></SuspendedProcesses>{{end}}{{with .Unit}}<DesiredCapacityType>{{.}}</DesiredCapacityType>{{end}}
<Tags>{{range $k, $v := .Tags}}<member><ResourceId>h100</ResourceId><ResourceType>auto-scaling-group</ResourceType><Key>{{$k}}</Key><Value>{{$v}}</Value><PropagateAtLaunch>true</PropagateAtLaunch></member>{{end}}</Tags>
</member>{{end}}</AutoScalingGroups></DescribeAutoScalingGroupsResult><ResponseMetadata><RequestId>7c6e177f</RequestId></ResponseMetadata></DescribeAutoScalingGroupsResponse>`))

func (d *fakeAWS) describe(rw io.Writer, there bool) {
	var group any
	if there {
		group = struct {
			Min, Max, Desired int
			Instances         []instance
			Status, Suspended string
			Unit, Weight      string
			Tags              map[string]string
		}{d.min, d.max, d.desired, d.instances, d.status, d.suspended, d.unit, d.weight, d.tags}
	}
	if err := groupAnswer.Execute(rw, group); err != nil {
		d.t.Error(err)
	}
}

func (d *fakeAWS) sqs(rw http.ResponseWriter, action string, body []byte) {
	var in struct {
		QueueUrl, ReceiptHandle                string
		MaxNumberOfMessages, VisibilityTimeout int
	}
	if err := json.Unmarshal(body, &in); err != nil || in.QueueUrl != testQueue || action == "ReceiveMessage" && (in.MaxNumberOfMessages != 10 || in.VisibilityTimeout != 60) {
		d.t.Errorf("%s: %s: %v", action, body, err)
	}
	out := map[string]any{}
	switch action {
	case "ReceiveMessage":
		var list []map[string]string
		for handle, text := range d.messages {
			if len(list) < 7 && !d.hidden[handle] { // fewer than there are, as AWS may
				d.hidden[handle] = true
				list = append(list, map[string]string{"MessageId": handle, "ReceiptHandle": handle, "MD5OfBody": fmt.Sprintf("%x", md5.Sum([]byte(text))), "Body": text})
			}
		}
		if len(list) > 0 {
			out["Messages"] = list
		}
	case "DeleteMessage":
		delete(d.messages, in.ReceiptHandle)
	default:
		d.t.Errorf("the fake knows no action %q", action)
	}
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err := json.NewEncoder(rw).Encode(out); err != nil {
		d.t.Error(err)
	}
}

const testQueue = "https://queue.example/123456789012/interruptions"

var testNow = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// asgWorld is a group of three with their nodes, and the provider over the fake.
type asgWorld struct {
	*world
	fake *fakeAWS
	asg  *Groups
	now  time.Time
	// config is how the provider reaches the fake.
	config func(context.Context, string) (aws.Config, error)
}

func newASGWorld(t *testing.T) *asgWorld {
	t.Helper()
	fake := &fakeAWS{t: t, min: 0, max: 10, desired: 3, tags: map[string]string{poolTag: "p"}, prices: map[string]string{}, messages: map[string]string{}, hidden: map[string]bool{}}
	nodes := members()
	for i, o := range nodes {
		id := fmt.Sprintf("i-0123456789abcdef%d", i)
		fake.instances = append(fake.instances, instance{ID: id, State: "InService"})
		o.(*corev1.Node).Spec.ProviderID = "aws:///eu-west-1a/" + id
	}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	w := &asgWorld{world: newScaleWorld(t, v1alpha1.ScaleProvider{}, nodes...), fake: fake, now: testNow}
	w.pool.Spec.Provider = v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "h100", Region: "eu-west-1"}}
	w.config = func(_ context.Context, region string) (aws.Config, error) {
		return aws.Config{
			Region: region, BaseEndpoint: aws.String(server.URL), HTTPClient: server.Client(), RetryMaxAttempts: 1,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "not-a-secret"}, nil
			}),
		}, nil
	}
	w.asg = NewASG(ASGOptions{Live: w.client, Now: func() time.Time { return w.now }, Config: w.config})
	return w
}

func (w *asgWorld) list() (Listing, error) {
	w.asg.memo.forget(w.pool)
	return w.asg.List(w.t.Context(), w.pool)
}

func (w *asgWorld) states() string {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	var out []string
	for _, i := range w.fake.instances {
		out = append(out, i.State)
	}
	return strings.Join(out, " ")
}

func namedPool(name string, age time.Duration, p v1alpha1.Provider) v1alpha1.GPUNodePool {
	pool := testPool()
	pool.Name, pool.CreationTimestamp, pool.Spec.Provider = name, metav1.NewTime(testNow.Add(-age)), p
	return *pool
}

func TestOlderPoolKeepsItsTarget(t *testing.T) {
	beta := deploymentRef
	beta.APIVersion = capiGroup + "/v1beta1" // the same object under another version
	group := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-1"}}
	elsewhere := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-2"}}
	all := []v1alpha1.GPUNodePool{
		namedPool("young", time.Hour, v1alpha1.Provider{Scale: &deploymentRef}),
		namedPool("old", 2*time.Hour, v1alpha1.Provider{Scale: &beta}),
		namedPool("b", time.Hour, group), namedPool("a", time.Hour, group), namedPool("c", time.Hour, elsewhere),
		namedPool("rack-1", 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}), namedPool("rack-2", 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}),
	}
	got := Conflicts(all)
	for name, want := range map[string]string{"young": "pool old", "b": "pool a"} {
		p := (*Problem)(nil)
		if !errors.As(got[name], &p) || p.Reason != ReasonShared || !strings.Contains(p.What, want) {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	if len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestNodesOfKarpenter: a pool all of whose nodes Karpenter made for another NodePool gets no action. If it has other
// nodes too, it continues with these.
func TestNodesOfKarpenter(t *testing.T) {
	node := func(name, pool, nodePool string) (n corev1.Node) {
		n.Name, n.Labels = name, map[string]string{v1alpha1.NodePoolLabel: pool, labelKarpenterFor: nodePool}
		return n
	}
	own := node("own", "beside", "")
	delete(own.Labels, labelKarpenterFor)
	all := []v1alpha1.GPUNodePool{namedPool("static", 0, v1alpha1.Provider{Scale: &nodePoolRef})}
	for _, name := range []string{"other", "beside", "empty"} {
		all = append(all, namedPool(name, 0, v1alpha1.Provider{Scale: &deploymentRef}))
	}
	nodes := []corev1.Node{node("a", "static", "h100"), node("b", "static", "another"), node("c", "other", "h100"), node("d", "beside", "h100"), own, node("e", "none", "h100"), {}}
	for range 2 {
		stopped, beside := Foreign(all, nodes)
		if len(stopped) != 1 || len(beside) != 2 {
			t.Errorf("stopped %v, beside %v", stopped, beside)
		}
		for pool, err := range map[string]error{"other": stopped["other"], "static": beside["static"], "beside": beside["beside"]} {
			if ReasonOf(err) != ReasonForeign || !strings.Contains(err.Error(), "has the pool's label and was made by Karpenter's NodePool") {
				t.Errorf("%s: %v", pool, err)
			}
		}
		slices.Reverse(nodes)
	}
}

func testPool() *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.GPUNodePoolSpec{
			Max:      5,
			Provider: v1alpha1.Provider{Scale: &deploymentRef},
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 2, Labels: map[string]string{"zone": "a"},
				Taints: []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
				CPU:    resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 1, "1g.10gb": 3}, {}}},
		},
	}
}

func TestTemplateErrorsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.GPUNodePool){
		"spec.template.product":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "toaster" },
		"1 or 2":                 func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout = make([]map[string]int32, 3) },
		"spec.mig.bootLayout[1]": func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout[1] = map[string]int32{"9g.90gb": 1} },
		"spec.template.memory":   func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Memory = resource.MustParse("70017000000000000000000") },
		"spec.template.cpu":      func(p *v1alpha1.GPUNodePool) { p.Spec.Template.CPU = resource.MustParse("-1") },
		"spec.template.sharing":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Replicas: 2} },
		"has no MIG":             func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "NVIDIA-L40S" },
	} {
		pool := testPool()
		change(pool)
		if _, err := templateOf(pool, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
	pool := testPool()
	pool.Spec.Provider = v1alpha1.Provider{}
	if _, err := (Providers{}).List(t.Context(), pool); !errors.Is(err, ErrNoProvider) {
		t.Errorf("err = %v", err)
	}
}

// TestFixed: no call changes a fixed pool or counts as a failure. The values in its status are those of a former
// provider.
func TestFixed(t *testing.T) {
	pool := testPool()
	pool.Status.Backoff = &v1alpha1.Backoff{Failures: 3, UntilTime: metav1.NewTime(time.Now().Add(time.Hour))}
	p := Providers{History: NewHistory(time.Now)}
	if l := p.Learn(pool, 1, nil); l.Failures != 3 {
		t.Fatalf("a pool that is made: %+v", l)
	}
	pool.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	for name, err := range map[string]error{
		"growing": p.SetSize(t.Context(), pool, 0, 3), "removing": p.Delete(t.Context(), pool, &corev1.Node{}, false), "withdrawing": p.Withdraw(t.Context(), pool, 3),
	} {
		if !errors.Is(err, ErrNoProvider) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l := p.History.Seen(pool, 2, nil); l.Failures != 3 {
		t.Errorf("%d failures of a provider that is asked for nothing", l.Failures-3)
	}
	if l := p.Learn(pool, 1, nil); l != (Learned{}) {
		t.Errorf("%+v", l)
	}
}

func FuzzNotice(f *testing.F) {
	f.Add([]byte(event("EC2 Spot Instance Interruption Warning", "i-0123456789abcdef1", testNow)))
	f.Add([]byte(health("EC2", "scheduledChange", "upcoming", testNow.Add(time.Hour))))
	f.Add([]byte(`{"time":"0001-01-01T00:00:00Z","detail":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := parseNotices(body)
		if (err == nil) != (len(all) > 0) {
			t.Errorf("%q: %v, %v", body, all, err)
		}
		for _, l := range all {
			if !instanceID.MatchString(l.Instance) || l.At.IsZero() {
				t.Errorf("%q: %+v", body, l)
			}
		}
	})
}

func FuzzTags(f *testing.F) {
	f.Add("label/zone", "a")
	f.Add("taint/dedicated", "ml:NoSchedule")
	f.Add("resources/rdma/hca", "8")
	f.Add("resources/nvidia.com/gpu", "1e99")
	f.Fuzz(func(t *testing.T, key, value string) {
		n, err := readTags([]types.TagDescription{{Key: aws.String(templateTag + key), Value: aws.String(value)}})
		if err != nil {
			if !strings.Contains(err.Error(), key) {
				t.Errorf("%q: %v names no tag", key, err)
			}
			return
		}
		p := plan.Template{Labels: map[string]string{}}
		complete(&p, n)
		for _, o := range p.Others {
			if o.Amount < 0 || o.Name == "" {
				t.Errorf("%q=%q: %+v", key, value, o)
			}
		}
		for _, taint := range p.Taints {
			if taint.Key == "" || taint.Effect == "" {
				t.Errorf("%q=%q: %+v", key, value, taint)
			}
		}
		if gpus := n.Status.Allocatable["nvidia.com/gpu"]; gpus.Sign() < 0 {
			t.Errorf("%q=%q: %s GPUs", key, value, &gpus)
		}
	})
}

func FuzzSpotPrices(f *testing.F) {
	f.Add("1.5", "a", int64(1), "2")
	f.Add("NaN", "a", int64(0), "")
	f.Fuzz(func(t *testing.T, price, zone string, at int64, earlier string) {
		item := func(price string, at int64) ec2types.SpotPrice {
			return ec2types.SpotPrice{SpotPrice: &price, AvailabilityZone: &zone, Timestamp: aws.Time(time.Unix(at, 0))}
		}
		p, err := highest([]ec2types.SpotPrice{item(price, 1), item(earlier, at)}, []string{"a", "b"})
		if (p == nil) == (err == nil) || p != nil && (math.IsNaN(*p) || *p < 0 || math.IsInf(*p, 0)) {
			t.Errorf("%q, %q: %v, %v", price, earlier, p, err)
		}
	})
}

// FuzzTarget reads random Karpenter NodePools.
func FuzzTarget(f *testing.F) {
	f.Add(`{"spec":{"replicas":3,"limits":{"nodes":"2"}}}`)
	f.Add(`{"spec":{"replicas":3,"limits":{"nodes":"9E"}},"metadata":{"annotations":{"gpuscale.io/removing":"a,,b"}}}`)
	f.Add(`{"spec":{"replicas":-1,"limits":3}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o map[string]any
		if json.Unmarshal([]byte(text), &o) != nil || o == nil {
			return
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			u.Object = o
		}
		c := interceptor.NewClient(nil, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return nil
			},
		})
		k, tg := karpenter{client: c, live: c}, target{object: u}
		_ = k.describe(tg, &Listing{})
		size, err := k.size(tg, nil)
		if err != nil {
			return
		}
		if n, err := tg.replicas(); err != nil || size > n {
			t.Errorf("%s: size %d of %d replicas, %v", text, size, n, err)
		}
		if err := k.resize(t.Context(), tg, 7); err != nil {
			return
		}
		if size, err := k.size(tg, nil); err != nil || size != 7 {
			t.Errorf("%s: asked for 7, is %d, %v", text, size, err)
		}
	})
}

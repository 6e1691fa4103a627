package pools

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestGroupScalesAndInstanceIsTerminatedByID(t *testing.T) {
	w := newASGWorld(t)
	for range 2 {
		if err := w.asg.SetSize(t.Context(), w.pool, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.asg.SetSize(t.Context(), w.pool, 4); err != nil {
		t.Fatal(err)
	}
	if l, err := w.asg.List(t.Context(), w.pool); err != nil || l.Target != 5 || w.fake.desired != 5 {
		t.Errorf("listed %+v, %v; the group requests %d", l, err, w.fake.desired)
	}
	for range 3 { // as every reconcile does until the node is gone
		if err := w.asg.Delete(t.Context(), w.pool, w.node("w-1")); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.states(); got != "InService Terminating InService" || w.fake.desired != 4 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
	if l, err := w.asg.List(t.Context(), w.pool); err != nil || fmt.Sprint(l.Going) != "[i-0123456789abcdef1]" {
		t.Errorf("listed %+v, %v", l, err)
	}
	if w.fake.refused != 0 {
		t.Errorf("%d requests were not signed", w.fake.refused)
	}
}

func TestInstanceMustMatchTheNode(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*asgWorld, *corev1.Node)
		want   func(error) bool
	}{
		"another UID":  {func(_ *asgWorld, n *corev1.Node) { n.UID = "older" }, apierrors.IsConflict},
		"no instance":  {func(_ *asgWorld, n *corev1.Node) { n.Spec.ProviderID = "" }, unnamed},
		"not in group": {func(w *asgWorld, _ *corev1.Node) { w.fake.instances[1].ID = "i-00000000" }, unnamed},
		"other pool": {func(_ *asgWorld, n *corev1.Node) { n.Labels = nil }, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "not of pool p")
		}},
	} {
		w := newASGWorld(t)
		n := w.node("w-1")
		c.change(w, n)
		if err := w.asg.Delete(t.Context(), w.pool, n); !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
		if got := w.states(); got != "InService InService InService" || w.fake.desired != 3 {
			t.Errorf("%s: instances %s, the group requests %d", what, got, w.fake.desired)
		}
	}
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
		"spec.max": w.asg.SetSize(t.Context(), w.pool, 5),
		"spec.min": w.asg.Delete(t.Context(), w.pool, w.node("w-1")),
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
	l, err := w.list()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Template(w.pool, nil, l)
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["topology.kubernetes.io/zone"] != "eu-west-1a" || got.Labels["zone"] != "a" {
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
	if l, err := w.list(); err != nil || l.SpotPrice == nil {
		t.Errorf("asked again at once: %+v, %v", l, err)
	}
	w.now = w.now.Add(priceEvery)
	if l, err := w.list(); err != nil || l.SpotPrice != nil || l.Target != 3 {
		t.Errorf("an unknown price is not a number, and keeps nothing else: %+v, %v", l, err)
	}
}

func event(kind, id string, at time.Time) string {
	return fmt.Sprintf(`{"version":"0","id":"12345678-1234-1234-1234-123456789012","detail-type":%q,"source":"aws.ec2","account":"123456789012","time":%q,"region":"eu-west-1","resources":["arn:aws:ec2:eu-west-1a:instance/%s"],"detail":{"instance-id":%q,"instance-action":"terminate"}}`,
		kind, at.Format(time.RFC3339), id, id)
}

func TestNotices(t *testing.T) {
	w := newASGWorld(t)
	w.pool.Spec.Provider.ASG.InterruptionQueue = testQueue
	const spot, rebalance = "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"
	w.fake.messages = map[string]string{
		"a": event(spot, "i-0123456789abcdef1", testNow),
		"b": event(rebalance, "i-0123456789abcdef2", testNow),
		"c": event(spot, "i-99999999", testNow),                                              // of another group
		"d": event(spot, "i-0123456789abcdef0", testNow.Add(-2*noticeLife)),                  // long over
		"e": event("EC2 Instance State-change Notification", "i-0123456789abcdef0", testNow), // none
		"f": "{",
	}
	l, err := w.list()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint([]Leaving{{"i-0123456789abcdef1", Interruption, testNow}, {"i-0123456789abcdef2", Rebalance, testNow}})
	if got := fmt.Sprint(l.Leaving); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(w.fake.messages) != 3 {
		t.Errorf("messages %v: what is still true stays for the next leader, the rest goes", w.fake.messages)
	}
	w.now = w.now.Add(noticeLife + time.Second)
	if l, err := w.list(); err != nil || len(l.Leaving) != 0 || len(w.fake.messages) != 0 {
		t.Errorf("old notices: %+v, %v, messages %v", l, err, w.fake.messages)
	}
}

func TestGroupIsNotReadEveryReconcile(t *testing.T) {
	w := newASGWorld(t)
	for range 9 {
		if _, err := w.asg.List(t.Context(), w.pool); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	if w.fake.described != 1 {
		t.Errorf("described %d times in 9 s", w.fake.described)
	}
}

// TestGroupWithdraws: the group's size becomes the number of its instances, none of which goes.
func TestGroupWithdraws(t *testing.T) {
	w := newASGWorld(t)
	if err := w.asg.SetSize(t.Context(), w.pool, 5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.asg.Withdraw(t.Context(), w.pool); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.states(); got != "InService InService InService" || w.fake.desired != 3 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
}

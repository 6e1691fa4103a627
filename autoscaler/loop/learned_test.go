package loop

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

func TestAnotherAutoscalerIsACondition(t *testing.T) {
	p := named("p")
	setInvalid(p, &pools.Problem{Reason: pools.ReasonForeign, Field: "spec.provider.asg.name", What: "two", Remedy: "take one off"})
	c := meta.FindStatusCondition(p.Status.Conditions, conditionForeign)
	if c == nil || c.Status != "True" || c.Message != "spec.provider.asg.name: two; take one off" || p.Status.Reason != pools.ReasonForeign {
		t.Errorf("%+v", p.Status)
	}
	setInvalid(p, errors.New("spec.template.product: nonsense"))
	if meta.FindStatusCondition(p.Status.Conditions, conditionForeign) != nil || p.Status.Reason != "Invalid" {
		t.Errorf("another reason: %+v", p.Status)
	}
	setInvalid(p, &pools.Problem{Reason: pools.ReasonForeign})
	finding{pool: plan.Pool{Name: "p"}}.write(p)
	if meta.FindStatusCondition(p.Status.Conditions, conditionForeign) != nil || !meta.IsStatusConditionTrue(p.Status.Conditions, conditionValid) {
		t.Errorf("the problem is gone: %+v", p.Status)
	}
}

func TestLearnedIsInTheStatus(t *testing.T) {
	p := named("p")
	setLearned(p, pools.Learned{ReadyAfter: 90*time.Second + time.Millisecond, Failures: 2, BackoffUntil: start})
	if s := p.Status; s.ReadyAfter.Duration != 90*time.Second || s.Backoff.Failures != 2 || !s.Backoff.UntilTime.Time.Equal(start.Truncate(time.Second)) {
		t.Errorf("%+v %+v", s.ReadyAfter, s.Backoff)
	}
	setLearned(p, pools.Learned{})
	if p.Status.ReadyAfter != nil || p.Status.Backoff != nil {
		t.Errorf("unknown is not zero: %+v %+v", p.Status.ReadyAfter, p.Status.Backoff)
	}
}

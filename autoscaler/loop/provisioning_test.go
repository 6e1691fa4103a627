package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

var provReq = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1", Kind: "ProvisioningRequest"}

// requested is an API server with one ProvisioningRequest of two pods, and the Publisher.
type requested struct {
	t   *testing.T
	c   client.Client
	p   *ClusterPublisher
	now time.Time
	// class and parameters of the request, and what it is reconciled with.
	request observe.Request
	reason  plan.Reason // of its pods' verdicts
	failed  bool        // the action for them fails
}

func newRequested(t *testing.T, class string) *requested {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(provReq)
	u.SetNamespace("ml")
	u.SetName("train")
	s := scheme.New()
	s.AddKnownTypeWithName(provReq, &unstructured.Unstructured{})
	s.AddKnownTypeWithName(provReq.GroupVersion().WithKind("ProvisioningRequestList"), &unstructured.UnstructuredList{})
	w := &requested{t: t, now: start.Truncate(time.Second), reason: plan.NoPoolFits}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{provReq.GroupVersion()})
	mapper.Add(provReq, meta.RESTScopeNamespace)
	w.c = fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithRuntimeObjects(u).WithStatusSubresource(u).Build()
	w.p = NewClusterPublisher(w.c, record.NewFakeRecorder(10), slog.New(slog.DiscardHandler))
	o := &foreign.Object{Kind: foreign.ProvisioningRequest, Request: &foreign.Request{Class: class}}
	o.Namespace, o.Name, o.CreationTimestamp = "ml", "train", metav1.NewTime(w.now)
	w.request = observe.Request{Object: o, Owner: "ProvisioningRequest/train", Gang: "ml/provisioningrequest/train"}
	return w
}

// reconcile once after a time, and returns the conditions as "type=status reason".
func (w *requested) reconcile(after time.Duration) string {
	w.t.Helper()
	w.now = w.now.Add(after)
	r := Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: w.now}}}
	pods := w.request.Check
	if len(pods) == 0 && w.reason != "" {
		for i := range 2 {
			pod := plan.Pod{Namespace: "ml", Name: fmt.Sprintf("train~%d", i), Owner: w.request.Owner, Gang: w.request.Gang}
			r.Pods = append(r.Pods, pod)
			r.Plan.Verdicts = append(r.Plan.Verdicts, plan.Verdict{Kind: plan.KindPod, Subject: pod.Key(), Reason: w.reason})
		}
	}
	if w.failed {
		r.Results = []act.Result{{Action: plan.Action{Verb: plan.ScaleUp, For: []string{"ml/train~0"}}, Outcome: act.Failed, Err: errors.New("stockout")}}
	}
	r.Plans = func(s plan.Snapshot) (out plan.Plan, _ error) {
		if !slices.ContainsFunc(s.Pods, func(p plan.Pod) bool { return p.Key() == pods[0].Key() }) {
			w.t.Error("the check's pods are not in its snapshot")
		}
		for _, pool := range s.Pools {
			if !pool.Freeze {
				w.t.Error("a check may add nodes")
			}
		}
		for i := range pods {
			out.Verdicts = append(out.Verdicts, plan.Verdict{Kind: plan.KindPod, Subject: pods[i].Key(), Reason: w.reason})
		}
		return out, nil
	}
	r.Pools = []plan.Pool{{Name: "p"}}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(provReq)
	get := func() {
		if err := w.c.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "train"}, u); err != nil {
			w.t.Fatal(err)
		}
	}
	get()
	w.request.ResourceVersion = u.GetResourceVersion()
	r.Requests = []observe.Request{w.request}
	if err := w.p.provisioning(context.Background(), r); err != nil {
		w.t.Fatal(err)
	}
	get()
	var from struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &from); err != nil {
		w.t.Fatal(err)
	}
	w.request.Request.Conditions = from.Status.Conditions
	var out []string
	for _, c := range from.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, ", ")
}

func (w *requested) want(after time.Duration, want string) {
	w.t.Helper()
	if got := w.reconcile(after); got != want {
		w.t.Errorf("%q, want %q", got, want)
	}
}

// TestAtomicRequest: a request is accepted, tried until nodes are requested for all of its pods, booked for ten
// minutes, and then over.
func TestAtomicRequest(t *testing.T) {
	const accepted = "Accepted=True Accepted, "
	w := newRequested(t, foreign.AtomicScaleUp)
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	if c := meta.FindStatusCondition(w.request.Request.Conditions, "Provisioned"); !strings.Contains(c.Message, string(plan.NoPoolFits)) {
		t.Errorf("message %q: it gives no reason", c.Message)
	}
	w.reason, w.failed = plan.WaitUpcomingNode, true
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound")
	w.failed = false
	w.want(time.Second, accepted+"Provisioned=True CapacityIsProvisioned")
	w.reason = plan.PoolAtMax // what it was given is not taken back
	w.want(bookingLasts, accepted+"Provisioned=True CapacityIsProvisioned")
	w.want(time.Second, accepted+"Provisioned=True CapacityIsProvisioned, BookingExpired=True CapacityReservationTimeExpired")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason = plan.WaitScheduler
	w.want(0, accepted+"Provisioned=True CapacityIsFound")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.request.Request.ValidFor = time.Hour
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	w.want(time.Hour+time.Second, accepted+"Provisioned=False CapacityIsNotFound, Failed=True Expired")
	w.reason = plan.WaitScheduler
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound, Failed=True Expired")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.request.Request.Missing = "template"
	w.want(0, accepted+"Provisioned=False FailedToCreatePods")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason = "" // none of its pods requests a GPU
	w.want(0, "Failed=True CapacityIsNotFound")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason, w.request.ByKueue = "", true // the pods of a Workload are not known yet
	w.want(0, "Accepted=True Accepted")
}

// TestCheckedRequest: a check finds what is free, adds nothing, and is repeated every ten seconds, or once.
func TestCheckedRequest(t *testing.T) {
	const accepted = "Accepted=True Accepted, "
	w := newRequested(t, foreign.CheckCapacity)
	w.request.Check = []plan.Pod{{Namespace: "ml", Name: "train-0~0"}, {Namespace: "ml", Name: "train-0~1"}}
	w.reason = plan.WaitUpcomingNode
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	w.reason = plan.WaitScheduler
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound")
	w.want(checkEvery, accepted+"Provisioned=True CapacityIsFound")

	w = newRequested(t, foreign.CheckCapacity)
	w.request.Check, w.request.Request.NoRetry = []plan.Pod{{Namespace: "ml", Name: "train-0~0"}}, true
	w.want(0, accepted+"Failed=True CapacityIsNotFound")
}

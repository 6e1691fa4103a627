package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// Times of cluster-autoscaler's ProvisioningRequests (processors/provreq): how long capacity is kept for
// pods that are still to come, and how long a request is tried.
const (
	bookingLasts    = 10 * time.Minute
	requestValidFor = 7 * 24 * time.Hour
)

// checkEvery is the interval of checks of one request's capacity, and of attempts to write its conditions.
const checkEvery = 10 * time.Second

// maxRequests bounds the requests whose conditions are written, and the checks, in one reconcile.
const maxRequests = 20

// provisioning writes the conditions of ProvisioningRequests, with cluster-autoscaler's reasons: Kueue
// reads them.
func (p *ClusterPublisher) provisioning(ctx context.Context, r Reconcile) error {
	if len(r.Requests) == 0 {
		return nil
	}
	var errs []error
	verdicts := verdictsOfPods(r.Plan.Verdicts)
	for i, written := 0, 0; i < len(r.Requests) && written < maxRequests; i++ {
		o := &r.Requests[i]
		key := "request/" + o.Namespace + "/" + o.Name
		if r.Now.Sub(p.written[key]) < checkEvery { // it was checked, or its conditions could not be written: others go first
			continue
		}
		capacity := capacityOf(o, r, verdicts)
		if len(o.Check) > 0 && r.Plans != nil {
			p.written[key] = r.Now
			written++
			if capacity = check(o, r); capacity.reason == capacityFound {
				r.Snapshot.Pods = append(slices.Clip(r.Snapshot.Pods), o.Check...) // the next check finds less
			}
		}
		conditions := conditionsOf(o.Object, capacity, r.Now)
		if equality.Semantic.DeepEqual(conditions, o.Request.Conditions) {
			continue
		}
		written++
		if err := p.writeRequest(ctx, o.Object, conditions); client.IgnoreNotFound(err) != nil {
			p.written[key] = r.Now
			errs = append(errs, fmt.Errorf("ProvisioningRequest %s/%s: %w", o.Namespace, o.Name, err))
		}
	}
	return errors.Join(errs...)
}

// capacity is what there is for the pods of a request, as the reason of its condition; empty where that is not known.
type capacity struct{ reason, why string }

const (
	capacityNone      = "none of its pods requests a GPU"
	capacityNotFound  = "CapacityIsNotFound" // not for all pods at once
	capacityFound     = "CapacityIsFound"    // free now
	capacityRequested = "CapacityIsProvisioned"
)

func verdictsOfPods(all []plan.Verdict) map[string]*plan.Verdict {
	out := map[string]*plan.Verdict{}
	for i := range all {
		if all[i].Kind == plan.KindPod {
			out[all[i].Subject] = &all[i]
		}
	}
	return out
}

// capacityOf reads the verdicts of the request's pods: of those that Kueue's Workload stands for, where
// Kueue made the request.
func capacityOf(o *observe.Request, r Reconcile, verdicts map[string]*plan.Verdict) capacity {
	out := capacity{reason: capacityFound}
	pods := 0
	for i := range r.Pods {
		pod := &r.Pods[i]
		if !o.Has(pod) {
			continue
		}
		pods++
		switch v := verdicts[pod.Key()]; {
		case pod.Node != "":
		case v == nil:
			return capacity{}
		case v.Reason == plan.WaitScheduler:
		case v.Reason == plan.WaitUpcomingNode || v.Reason == plan.WaitRepartition:
			out.reason = capacityRequested
		default:
			return capacity{capacityNotFound, string(v.Reason)}
		}
	}
	switch {
	case pods == 0 && (o.ByKueue || o.Request.Missing != "" || len(o.Check) > 0):
		return capacity{}
	case pods == 0:
		return capacity{reason: capacityNone}
	case out.reason == capacityRequested && failedFor(o, r):
		return capacity{capacityNotFound, "the provider did not accept the request"}
	}
	return out
}

// failedFor reports whether an action for the request's pods did not succeed.
func failedFor(o *observe.Request, r Reconcile) bool {
	mine := map[string]bool{}
	for i := range r.Pods {
		if p := &r.Pods[i]; o.Has(p) {
			mine[p.Key()] = true
		}
	}
	return slices.ContainsFunc(r.Results, func(result act.Result) bool {
		return (result.Outcome == act.Failed || result.Outcome == act.Refused) && slices.ContainsFunc(result.Action.For, func(key string) bool { return mine[key] })
	})
}

// check plans for the pods of a request in a cluster that adds nothing.
func check(o *observe.Request, r Reconcile) capacity {
	s := r.Snapshot
	s.Pods = append(slices.Clip(s.Pods), o.Check...)
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		s.Pools[i].Freeze = true
	}
	made, err := r.Plans(s)
	if err != nil {
		return capacity{}
	}
	verdicts := verdictsOfPods(made.Verdicts)
	for i := range o.Check {
		switch v := verdicts[o.Check[i].Key()]; {
		case v == nil:
			return capacity{}
		case v.Reason != plan.WaitScheduler:
			return capacity{capacityNotFound, string(v.Reason)}
		}
	}
	return capacity{reason: capacityFound}
}

// conditionsOf are the conditions of a request with that capacity.
func conditionsOf(o *foreign.Object, c capacity, now time.Time) []metav1.Condition {
	out := slices.Clone(o.Request.Conditions)
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&out, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		})
	}
	provisioned := meta.FindStatusCondition(out, foreign.RequestProvisioned)
	switch {
	case meta.IsStatusConditionTrue(out, foreign.RequestFailed), meta.IsStatusConditionTrue(out, foreign.RequestExpired):
		return out
	case provisioned != nil && provisioned.Status == metav1.ConditionTrue:
		if now.Sub(provisioned.LastTransitionTime.Time) > bookingLasts {
			set(foreign.RequestExpired, metav1.ConditionTrue, "CapacityReservationTimeExpired", "Capacity reservation time is expired")
		}
		return out
	case now.Sub(o.CreationTimestamp.Time) > cmp.Or(o.Request.ValidFor, requestValidFor):
		set(foreign.RequestFailed, metav1.ConditionTrue, "Expired", "ProvisioningRequest is expired")
		return out
	case c.reason == capacityNone:
		set(foreign.RequestFailed, metav1.ConditionTrue, capacityNotFound, capacityNone+", and gpuscale serves no others")
		return out
	}
	set(foreign.RequestAccepted, metav1.ConditionTrue, "Accepted", "ProvisioningRequest is accepted by gpuscale")
	switch {
	case o.Request.Missing != "":
		set(foreign.RequestProvisioned, metav1.ConditionFalse, "FailedToCreatePods", fmt.Sprintf("there is no PodTemplate %s", o.Request.Missing))
	case c.reason == capacityFound:
		set(foreign.RequestProvisioned, metav1.ConditionTrue, capacityFound, "Capacity is found in the cluster")
	case c.reason == capacityRequested && o.Request.Class == foreign.AtomicScaleUp:
		set(foreign.RequestProvisioned, metav1.ConditionTrue, capacityRequested, "Nodes are requested for all of its pods")
	case c.reason == capacityNotFound && o.Request.NoRetry:
		set(foreign.RequestFailed, metav1.ConditionTrue, capacityNotFound, "Capacity is not found: "+c.why)
	case c.reason == capacityNotFound:
		set(foreign.RequestProvisioned, metav1.ConditionFalse, capacityNotFound, "Capacity is not found, gpuscale tries again: "+c.why)
	}
	return out
}

// writeRequest writes the conditions, unless the request has changed since it was read.
func (p *ClusterPublisher) writeRequest(ctx context.Context, o *foreign.Object, conditions []metav1.Condition) error {
	mapping, err := p.client.RESTMapper().RESTMapping(schema.GroupKind{Group: "autoscaling.x-k8s.io", Kind: "ProvisioningRequest"})
	if err != nil {
		return fmt.Errorf("finding its API: %w", err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion}, "status": map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encoding its conditions: %w", err)
	}
	return p.client.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, body))
}

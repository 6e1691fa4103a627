package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
)

// ClusterPublisher writes the status of pools and quotas, and Events on pods and nodes.
type ClusterPublisher struct {
	client   client.Client
	recorder record.EventRecorder
	log      *slog.Logger
	reported map[string]report    // the last verdict in an Event, by pod
	written  map[string]time.Time // when a status was last written, within the last messageEvery
	// decisions of pools, as their statuses are to have them: the cache may be behind the last write, and a write may fail.
	decisions map[types.UID][]v1alpha1.Decision
	repeated  kube.Repeated // errors of writes
}

// report is the last verdict in an Event of a pod.
type report struct {
	reason plan.Reason
	at     time.Time
}

// reportAgain is when the Event of an unchanged verdict is repeated: the API server
// deletes Events after an hour.
const reportAgain = 15 * time.Minute

// maxVerdictEvents bounds the Events on a namespace's pods in a reconcile; the rest follow in the next ones. The recorder
// writes 20 a second, and drops what is beyond 1,000: a namespace with more pending pods would leave the others without.
const maxVerdictEvents = 50

// maxNote is the bound of events.k8s.io/v1 on an Event's note, in bytes.
const maxNote = 1024

// NewClusterPublisher returns a Publisher. c may read from a cache.
func NewClusterPublisher(c client.Client, recorder record.EventRecorder, log *slog.Logger) *ClusterPublisher {
	return &ClusterPublisher{client: c, recorder: recorder, log: log, reported: map[string]report{}, written: map[string]time.Time{}, decisions: map[types.UID][]v1alpha1.Decision{}, repeated: kube.Repeated{}}
}

// Publish implements Publisher. A failed write is logged, and repeated in the next
// reconcile.
func (p *ClusterPublisher) Publish(ctx context.Context, r Reconcile) {
	verdicts, covered := map[string]*plan.Verdict{}, map[string]bool{}
	if len(r.Results) > 0 {
		verdicts = verdictsOfPods(r.Plan.Verdicts)
	}
	for _, result := range r.Results {
		if result.Outcome == act.Done || !result.Continued && (result.Outcome == act.Failed || result.Outcome == act.Waiting) {
			p.actionEvents(ctx, result, verdicts, covered)
		}
	}
	p.verdictEvents(ctx, r, covered)
	if err := errors.Join(p.statuses(ctx, r), p.provisioning(ctx, r), p.quotas(ctx, r)); p.repeated.New(err, r.Now) && ctx.Err() == nil {
		p.log.Warn("publishing statuses failed", "err", err)
	}
	maps.DeleteFunc(p.written, func(_ string, at time.Time) bool { return r.Now.Sub(at) >= messageEvery })
}

// eventReasons are the reasons of a verb's Events, at the beginning and at the end. Verbs that are
// not here have none: soft taints come and go with every pod.
var eventReasons = map[plan.Verb]struct{ begins, done string }{
	plan.ScaleUp:     {"ScalingUp", "TriggeredScaleUp"},
	plan.Repartition: {"Repartitioning", "TriggeredRepartition"},
	plan.Rollback:    {"RollingBack", "RolledBack"},
	plan.Uncordon:    {"Uncordoning", "Uncordoned"},
	plan.Drain:       {"Draining", "Drained"},
	plan.RemoveNode:  {"RemovingNode", "RemovedNode"},
	plan.Reclaim:     {"Reclaiming", "Reclaimed"},
	plan.Replace:     {"ReplacingNode", "ReplacedNode"},
	plan.Withdraw:    {"WithdrawingRequest", "WithdrewRequest"},
}

// actionEvents writes the Events of an action, on its node and on its pods. The Event of
// a pod that the action serves includes the detail of the pod's verdict; the pod is
// then added to covered, so that its verdict has no Event of its own.
func (p *ClusterPublisher) actionEvents(ctx context.Context, r act.Result, verdicts map[string]*plan.Verdict, covered map[string]bool) {
	eventType, reason := corev1.EventTypeNormal, eventReasons[r.Action.Verb].done
	if reason == "" {
		return
	}
	about := fmt.Sprintf("%s: %s", r.Action.Reason, r.Action.Detail)
	switch r.Action.Verb {
	case plan.ScaleUp:
		about = fmt.Sprintf("%s %d→%d, %s", r.Action.Pool, r.Action.From, r.Action.To, about)
	case plan.Repartition:
		about = fmt.Sprintf("GPU %d of %s, %s", r.Action.GPU, r.Action.Node, about)
	case plan.Reclaim:
		about = fmt.Sprintf("%s on %s, %s", r.Action.Pod, r.Action.Node, about)
	}
	switch r.Outcome {
	case act.Waiting:
		reason = eventReasons[r.Action.Verb].begins
	case act.Failed:
		eventType, reason, about = corev1.EventTypeWarning, reason+"Failed", fmt.Sprintf("%s: %v", about, r.Err)
	}
	if r.Action.Verb == plan.Rollback { // the repartition has failed, even if its rollback succeeds
		eventType = corev1.EventTypeWarning
	}
	pods := r.Action.For // and the one it is done to
	if pod := r.Action.Pod; pod != "" && !slices.Contains(pods, pod) {
		pods = append([]string{pod}, pods...)
	}
	for _, key := range pods {
		if pod := p.pod(ctx, key); pod != nil {
			note := about
			if v := verdicts[key]; v != nil && v.Detail != "" && v.Reason != plan.WaitScheduler && slices.Contains(plan.Served, v.Reason) && r.Outcome != act.Failed {
				note, covered[key] = about+"; "+v.Detail, true
			}
			p.recorder.Event(pod, eventType, reason, text.Short(note, maxNote))
		}
	}
	if r.Action.Node != "" {
		p.recorder.Event(nodeRef(r.Action.Node), eventType, reason, text.Short(about, maxNote))
	}
}

// nodeRef is the reference of a node in its Events. Its UID is the node's name, as in
// kubelet's Events: kubectl describe looks for that.
func nodeRef(name string) runtime.Object {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
}

// withoutEvent are reasons that need no Event: the pod runs, or the scheduler has one.
var withoutEvent = map[plan.Reason]bool{plan.Running: true, plan.WaitScheduler: true}

// due reports whether an Event with a reason is to be written about a subject: the first time, and again after
// reportAgain. It records the subject's last Event in next.
func (p *ClusterPublisher) due(next map[string]report, subject string, reason plan.Reason, now time.Time) bool {
	last, known := p.reported[subject]
	again := !known || last.reason != reason || now.Sub(last.at) >= reportAgain
	if again {
		last = report{reason, now}
	}
	next[subject] = last
	return again
}

// verdictEvents writes an Event with the reason on each pending pod that is not in covered, and one on each node that
// is set apart. Pods and pools that are set apart have verdicts and conditions.
func (p *ClusterPublisher) verdictEvents(ctx context.Context, r Reconcile, covered map[string]bool) {
	reported, written := make(map[string]report, len(p.reported)), map[string]int{} // by namespace
	for _, v := range r.Plan.Verdicts {
		if v.Kind != plan.KindPod || withoutEvent[v.Reason] {
			continue
		}
		namespace, _, _ := strings.Cut(v.Subject, "/")
		if last, known := p.reported[v.Subject]; written[namespace] == maxVerdictEvents {
			if known {
				reported[v.Subject] = last
			}
			continue
		}
		if !p.due(reported, v.Subject, v.Reason, r.Now) || covered[v.Subject] {
			continue
		}
		written[namespace]++
		if pod := p.pod(ctx, v.Subject); pod != nil {
			note, warns := explain.Note(v)
			kind := corev1.EventTypeNormal
			if warns {
				kind = corev1.EventTypeWarning
			}
			p.recorder.Event(pod, kind, string(v.Reason), text.Short(note, maxNote))
		}
	}
	const invalid = "InvalidNode"
	for _, c := range r.Contained[:min(len(r.Contained), maxContained)] {
		if c.Kind == plan.KindNode && p.due(reported, "node "+c.Name, invalid, r.Now) { // no pod has such a name
			p.recorder.Event(nodeRef(c.Name), corev1.EventTypeWarning, invalid, text.Short(fmt.Sprintf("%v; gpuscale counts the node as cordoned, and does not change it", c.Err), maxNote))
		}
	}
	p.reported = reported
}

// pod returns a pod from the cache, nil where it is gone.
func (p *ClusterPublisher) pod(ctx context.Context, key string) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	var pod corev1.Pod
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return nil
	}
	return &pod
}

// quotasEvery is the least interval between writes of a quota's changed usage. Changed
// conditions are written at once.
const quotasEvery = 5 * time.Second

// quotas writes the status of every GPUQuota that changed.
func (p *ClusterPublisher) quotas(ctx context.Context, r Reconcile) error {
	next := ledger.Statuses(r.Quotas, &r.Snapshot, r.QuotaProblems)
	var errs []error
	for i := range r.Quotas {
		q := &r.Quotas[i]
		status := next[q.Name]
		key := "quota " + q.Name
		if equality.Semantic.DeepEqual(q.Status, status) ||
			equality.Semantic.DeepEqual(q.Status.Conditions, status.Conditions) && r.Now.Sub(p.written[key]) < quotasEvery {
			continue
		}
		changed := q.DeepCopy()
		changed.Status = status
		errs = append(errs, p.patch(ctx, key, r.Now, &v1alpha1.GPUQuota{ObjectMeta: q.ObjectMeta, Spec: q.Spec, Status: q.Status}, changed))
	}
	return errors.Join(errs...)
}

// patch writes the difference of a status, and notes when.
func (p *ClusterPublisher) patch(ctx context.Context, key string, now time.Time, before, after client.Object) error {
	if err := p.client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	p.written[key] = now
	return nil
}

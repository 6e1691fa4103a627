package agent

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

const (
	// reportEvery is the interval of health checks.
	reportEvery = 5 * time.Second
	// heartbeat is how often an unchanged condition is written again, so that a
	// reader can recognise a stale one. On 5,000 nodes this makes 17 writes a
	// second.
	heartbeat = 5 * time.Minute
	// retryWrite is the least time between two tries that failed.
	retryWrite = 30 * time.Second
)

// Reporter reports the node's health to Kubernetes: the condition GPUHealthy
// and an Event when it changes.
type Reporter struct {
	node  *ownNode
	ready func() error
	count func(kind string, err error)
	log   *slog.Logger

	latest atomic.Pointer[[]collect.GPUHealth]

	// Of Run only:
	debounce debouncer
	recalled bool    // written was read from the node after the start
	written  verdict // as on the node
	wrote    time.Time
	tried    time.Time
	changed  time.Time // when the condition's status last changed
}

// NewReporter reports on the named node. ready returns why there is no fresh
// reading, nil where there is one; count is called for each write to the API.
func NewReporter(api *pods.API, name string, ready func() error, count func(kind string, err error), log *slog.Logger) *Reporter {
	r := &Reporter{node: &ownNode{api, name}, ready: ready, count: count, log: log}
	r.latest.Store(new([]collect.GPUHealth))
	return r
}

// Observe takes a reading. It does not block.
func (r *Reporter) Observe(reading *collect.Reading) {
	gpus := collect.Health(reading)
	r.latest.Store(&gpus)
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) { r.step(ctx, time.Now()) }, reportEvery)
}

// step writes what is due: a new condition, its Event, or a sign of life.
func (r *Reporter) step(ctx context.Context, now time.Time) {
	v, news := r.debounce.observe(judge(*r.latest.Load(), r.ready()), now)
	if news {
		r.log.Info("agent: GPU health changed", "status", v.status, "reason", v.reason, "message", v.message)
	}
	due := !v.alike(r.written) || now.Sub(r.wrote) >= heartbeat
	if v.status == "" || !due || now.Sub(r.tried) < retryWrite && r.wrote.Before(r.tried) {
		return
	}
	r.tried = now
	if !r.recall(ctx) {
		return
	}
	if v.status != r.written.status {
		r.changed = now
	}
	err := r.node.patchStatus(ctx, conditionPatch(v, now, r.changed))
	r.count("condition", err)
	if err != nil {
		r.log.Warn("agent: condition not written", "error", err)
		return
	}
	before := r.written
	r.written, r.wrote = v, now
	if !v.alike(before) && worthAnEvent(before, v) {
		err := r.node.createEvent(ctx, r.event(v, now))
		r.count("event", err)
		if err != nil {
			r.log.Warn("agent: Event not written", "error", err)
		}
	}
}

// recall reads the node's condition once after the start, so that a restart is
// no transition and no Event.
func (r *Reporter) recall(ctx context.Context) bool {
	if r.recalled {
		return true
	}
	before, changed, err := r.node.condition(ctx)
	if err != nil {
		r.log.Warn("agent: condition not read", "error", err)
		return false
	}
	r.recalled, r.written, r.changed = true, before, changed
	return true
}

// worthAnEvent excludes a healthy first verdict: a rollout on 5,000 nodes must
// not write 5,000 Events.
func worthAnEvent(before, v verdict) bool { return before.status != "" || v.status == "False" }

// conditionPatch merges into the conditions by their type.
func conditionPatch(v verdict, now, changed time.Time) any {
	return map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: ConditionType, Status: corev1.ConditionStatus(v.status), Reason: v.reason, Message: v.message,
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(changed),
	}}}}
}

// event is an Event of the node. Kubernetes refers to a Node by its name where
// the UID is asked for, as the kubelet does.
func (r *Reporter) event(v verdict, now time.Time) *corev1.Event {
	kind, name := corev1.EventTypeWarning, r.node.name
	if v.status == "True" {
		kind = corev1.EventTypeNormal
	}
	return &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "gpuscale-exporter-", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)},
		Type:           kind, Reason: v.reason, Message: v.message, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
		Source:              corev1.EventSource{Component: "gpuscale-exporter", Host: name},
		ReportingController: "gpuscale.io/exporter", ReportingInstance: name,
	}
}

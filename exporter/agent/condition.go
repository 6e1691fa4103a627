package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// ConditionType is the condition of the Node: "True" while all its GPUs are
// healthy.
const ConditionType = "GPUHealthy"

const (
	// reportEvery is the interval of health checks.
	reportEvery = 5 * time.Second
	// heartbeat is how often an unchanged condition is written again, so that a
	// reader can recognise a stale one. On 5,000 nodes this makes 17 writes a
	// second.
	heartbeat = 5 * time.Minute
	// retryWrite is the least time between a failed write and the next one.
	retryWrite = 30 * time.Second
	// How long a state lasts before it is reported: an unhealthy one soon, a
	// healthy one later, so that the condition does not flap with a GPU.
	badAfter     = 10 * time.Second
	goodAfter    = time.Minute
	unknownAfter = 2 * time.Minute
)

var settles = map[corev1.ConditionStatus]time.Duration{
	corev1.ConditionTrue: goodAfter, corev1.ConditionFalse: badAfter, corev1.ConditionUnknown: unknownAfter,
}

// Reporter reports the node's health to Kubernetes: the condition GPUHealthy
// and an Event when it changes.
type Reporter struct {
	node    *ownNode
	reading func() *collect.Reading
	ready   func() error
	log     *slog.Logger

	// Of Run only:
	judged   corev1.NodeCondition // newest
	since    time.Time            // of judged
	reported corev1.NodeCondition // judged, once it has lasted
	written  *corev1.NodeCondition
	failed   time.Time // when the last write failed; zero where it did not
}

// NewReporter reports on the named node. ready returns why there is no fresh
// reading, nil where there is one; count is called for each write to the API.
func NewReporter(api *pods.API, name string, reading func() *collect.Reading, ready func() error, count func(kind string, err error), log *slog.Logger) *Reporter {
	return &Reporter{node: &ownNode{api, name, count}, reading: reading, ready: ready, log: log}
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) { r.step(ctx, time.Now()) }, reportEvery)
}

// judge sums up the GPUs: one unhealthy GPU makes the node so; a node without a
// GPU of known health is unknown. why is the reason for a missing reading, else
// nil.
func judge(gpus []collect.GPUHealth, why error) corev1.NodeCondition {
	is := func(status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: ConditionType, Status: status, Reason: reason, Message: message}
	}
	if why != nil {
		return is(corev1.ConditionUnknown, "HealthUnknown", why.Error())
	}
	var bad []string
	healthy := 0
	for _, c := range gpus {
		switch {
		case c.Healthy():
			healthy++
		case c.Known:
			bad = append(bad, fmt.Sprintf("GPU %d (%s): %s", c.GPU, c.UUID, c.Reason))
		}
	}
	switch {
	case len(bad) > 0:
		return is(corev1.ConditionFalse, "GPUsUnhealthy", strings.Join(bad, ", "))
	case healthy == 0:
		return is(corev1.ConditionUnknown, "HealthUnknown", "the health of all GPUs is unknown")
	}
	return is(corev1.ConditionTrue, "AllGPUsHealthy", fmt.Sprintf("%d of %d GPUs are healthy, the health of the others is unknown", healthy, len(gpus)))
}

// alike reports whether two conditions are the same for an Event: for an
// unhealthy node the status, GPUs and reasons, otherwise the status only.
func alike(a, b corev1.NodeCondition) bool {
	return a.Status == b.Status && (a.Status != corev1.ConditionFalse || a.Message == b.Message)
}

// step writes what is due: a new condition, its Event, or a sign of life.
func (r *Reporter) step(ctx context.Context, now time.Time) {
	var gpus []collect.GPUHealth
	if reading := r.reading(); reading != nil {
		gpus = collect.Health(reading)
	}
	next := judge(gpus, r.ready())
	if !alike(next, r.judged) {
		r.since = now
	}
	r.judged = next
	switch {
	case alike(next, r.reported):
		r.reported = next
	case now.Sub(r.since) >= settles[next.Status]:
		r.reported = next
		r.log.Info("agent: GPU health changed", "status", next.Status, "reason", next.Reason, "message", next.Message)
	}
	due := r.written == nil || !alike(r.reported, *r.written) || now.Sub(r.written.LastHeartbeatTime.Time) >= heartbeat
	if r.reported.Status == "" || !due || now.Sub(r.failed) < retryWrite {
		return
	}
	r.failed = time.Time{}
	if err := r.write(ctx, now); err != nil {
		r.failed = now
		r.log.Warn("agent: condition not written", "error", err)
	}
}

// write writes the reported condition, and an Event if the Node had another one. The Node's
// condition is read once, so that a restart is no transition and gives no Event.
func (r *Reporter) write(ctx context.Context, now time.Time) error {
	if r.written == nil {
		before, err := r.node.condition(ctx)
		if err != nil {
			return err
		}
		r.written = &before
	}
	before, next := *r.written, r.reported
	next.LastHeartbeatTime, next.LastTransitionTime = metav1.NewTime(now), before.LastTransitionTime
	if next.Status != before.Status {
		next.LastTransitionTime = next.LastHeartbeatTime
	}
	if err := r.node.patchStatus(ctx, "condition", map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{next}}}); err != nil {
		return err
	}
	r.written = &next
	// A healthy first condition is no news: a rollout on 5,000 nodes must not write 5,000 Events.
	if alike(next, before) || before.Status == "" && next.Status != corev1.ConditionFalse {
		return nil
	}
	if err := r.node.createEvent(ctx, r.event(next)); err != nil {
		r.log.Warn("agent: Event not written", "error", err)
	}
	return nil
}

// event is an Event of the node. It refers to the Node by its name, also as the
// UID, as the kubelet's Events do.
func (r *Reporter) event(c corev1.NodeCondition) *corev1.Event {
	kind, name := corev1.EventTypeWarning, r.node.name
	if c.Status == corev1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	return &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "gpuscale-exporter-", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)},
		Type:           kind, Reason: c.Reason, Message: c.Message, Count: 1,
		FirstTimestamp: c.LastHeartbeatTime, LastTimestamp: c.LastHeartbeatTime,
		Source:              corev1.EventSource{Component: "gpuscale-exporter", Host: name},
		ReportingController: "gpuscale.io/exporter", ReportingInstance: name,
	}
}

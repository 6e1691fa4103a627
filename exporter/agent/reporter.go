package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

const (
	// reportEvery is how often health is looked at.
	reportEvery = 5 * time.Second
	// heartbeat is how often an unchanged condition is written again, so that a
	// reader can tell an old one from a true one. 5,000 nodes make 17 writes a
	// second of it.
	heartbeat = 5 * time.Minute
	// retryWrite is the least time between two tries that failed.
	retryWrite = 30 * time.Second
)

// Reporter tells Kubernetes of the node's health: the condition GPUHealthy and
// an Event when it changes.
type Reporter struct {
	node  *ownNode
	ready func() error
	count func(kind string, err error)
	log   *slog.Logger

	latest atomic.Pointer[[]collect.CardHealth]

	// Of Run only:
	debounce debouncer
	recalled bool    // written is what stood on the node before the start
	written  verdict // as it stands on the node
	wrote    time.Time
	tried    time.Time
	changed  time.Time // when the condition's status last changed
}

// NewReporter tells of the node with a name. ready says why there is no fresh
// reading, nil where there is one; count is told of each write to the API.
func NewReporter(api *pods.API, name string, ready func() error, count func(kind string, err error), log *slog.Logger) *Reporter {
	return &Reporter{node: &ownNode{api, name}, ready: ready, count: count, log: log}
}

// Observe takes a reading in. It does not block.
func (r *Reporter) Observe(reading *collect.Reading) {
	cards := sortedByCard(collect.Health(reading))
	r.latest.Store(&cards)
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.step(ctx, time.Now())
		}
	}
}

// step writes what is due: a new condition, its Event, or a sign of life.
func (r *Reporter) step(ctx context.Context, now time.Time) {
	v, news := r.debounce.observe(r.judge(), now)
	if news {
		r.log.Info("the node's GPU health changes", "status", v.status, "reason", v.reason, "message", v.message)
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
		r.log.Warn("the node's condition is not written", "error", err)
		return
	}
	before := r.written
	r.written, r.wrote = v, now
	if !v.alike(before) && worthAnEvent(before, v) {
		err := r.node.createEvent(ctx, r.event(v, now))
		r.count("event", err)
		if err != nil {
			r.log.Warn("the Event of the node's health is not written", "error", err)
		}
	}
}

// recall learns once what stands on the node from before the start, so that a
// restart is no transition and no Event.
func (r *Reporter) recall(ctx context.Context) bool {
	if r.recalled {
		return true
	}
	before, changed, err := r.node.condition(ctx)
	if err != nil {
		r.log.Warn("the node's condition is not read", "error", err)
		return false
	}
	r.recalled, r.written, r.changed = true, before, changed
	return true
}

func (r *Reporter) judge() verdict {
	why := r.ready()
	cards := r.latest.Load()
	if why == nil && cards == nil {
		why = errors.New("no reading yet")
	}
	if why != nil {
		return judge(nil, why)
	}
	return judge(*cards, nil)
}

// worthAnEvent is all but a first look that finds everything well: a rollout on
// 5,000 nodes is no news of their health.
func worthAnEvent(before, v verdict) bool { return before.status != "" || v.status == "False" }

// conditionPatch merges into the conditions by their type.
func conditionPatch(v verdict, now, changed time.Time) any {
	return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": ConditionType, "status": v.status, "reason": v.reason, "message": v.message,
		"lastHeartbeatTime": stamp(now), "lastTransitionTime": stamp(changed),
	}}}}
}

// event is an Event of the node. Kubernetes refers to a Node by its name where
// the UID is asked for, as the kubelet does.
func (r *Reporter) event(v verdict, now time.Time) any {
	kind := "Warning"
	if v.status == "True" {
		kind = "Normal"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"generateName": "gpuscale-exporter-", "namespace": "default"},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": r.node.name, "uid": r.node.name},
		"type":           kind, "reason": v.reason, "message": v.message, "count": 1,
		"firstTimestamp": stamp(now), "lastTimestamp": stamp(now),
		"source":             map[string]any{"component": "gpuscale-exporter", "host": r.node.name},
		"reportingComponent": "gpuscale.io/exporter", "reportingInstance": r.node.name,
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

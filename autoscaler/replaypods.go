package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan/replay"
)

// readPods reads a pod list: JSON of kubectl get pods -o json where it begins with a
// brace, else CSV.
func readPods(name string, r io.Reader) ([]replay.Pod, error) {
	b := bufio.NewReader(r)
	if first, _ := b.Peek(1); len(first) == 0 || first[0] != '{' {
		return replay.ReadPods(name, b)
	}
	var list corev1.PodList
	d := json.NewDecoder(b)
	if err := d.Decode(&list); err != nil {
		if text, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("%s: byte %d: %w", name, text.Offset, err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if list.Kind != "List" && list.Kind != "PodList" {
		return nil, fmt.Errorf("%s: kind: %q: want the List of kubectl get pods -A -o json", name, list.Kind)
	}
	return traceOf(name, list.Items)
}

// traceOf are pods as a trace. One that still runs does so until the newest time in the
// list; times begin with the first pod.
func traceOf(name string, items []corev1.Pod) ([]replay.Pod, error) {
	var first, newest time.Time
	for i := range items {
		p := &items[i]
		created := p.CreationTimestamp.Time
		if created.IsZero() {
			return nil, fmt.Errorf("%s: items[%d].metadata.creationTimestamp: missing", name, i)
		}
		if first.IsZero() || created.Before(first) {
			first = created
		}
		for _, at := range []time.Time{created, boundAt(p), endedAt(p)} {
			if at.After(newest) {
				newest = at
			}
		}
	}
	pods := make([]replay.Pod, 0, len(items))
	for i := range items {
		p := &items[i]
		one := podOf(p)
		one.Created = p.CreationTimestamp.Sub(first)
		if bound, ended := boundAt(p), endedAt(p); !bound.IsZero() {
			if ended.IsZero() {
				ended = newest
			}
			one.Run = max(ended.Sub(bound), 0)
		}
		pods = append(pods, one)
	}
	return pods, nil
}

// boundAt is when a pod was scheduled, zero for never.
func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// endedAt is when the last container of a pod that has ended did; zero for one that has
// not.
func endedAt(p *corev1.Pod) time.Time {
	var at time.Time
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		return at
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// podOf is what a pod requests.
func podOf(p *corev1.Pod) replay.Pod {
	seen := observe.ConvertPod(p)
	d := seen.Demand
	out := replay.Pod{Name: seen.Namespace + "." + seen.Name, CPU: int(seen.CPUMilli), Memory: int(seen.MemoryMi), Gang: seen.Gang}
	switch {
	case seen.Unreadable != "":
		out.Unplayed = "a request that cannot be read"
	case len(d.MIG) == 1 && d.MIG[0].Count == 1 && d.GPUs == 0 && d.Fraction == nil:
		out.Profile = d.MIG[0].Name
	case len(d.MIG) > 0 || d.Fraction != nil && (d.GPUs > 0 || d.Fraction.GPUs > 1 || max(d.Fraction.CoreMilli, d.Fraction.MemoryMilli) == 0):
		out.Unplayed = "parts of GPUs that are more than one, or of no stated size"
	case d.Fraction != nil:
		out.GPUs, out.Milli = 1, min(max(d.Fraction.CoreMilli, d.Fraction.MemoryMilli), 1000)
	case d.GPUs > 0:
		out.GPUs, out.Milli = d.GPUs, 1000
	}
	return out
}

package signal

import (
	"fmt"
	"strings"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// Answer is a number made of fresh samples only.
type Answer struct {
	Value float64
	// Time is that of the oldest sample used.
	Time time.Time
	// Pods that contributed.
	Pods int
	// Declared of these gave no measurement but what the rule declares for NaN
	// or for the want of a series.
	Declared int
}

// NoAnswer says why there is no number. It is an error with a full sentence.
type NoAnswer struct {
	Rule    Rule
	Subject string // "3 pods of Deployment chat/vllm"
	// Asked is the number of pods asked for; Silent those of them that have
	// been heard of but have no usable fresh sample now.
	Asked, Silent int
	// Newest is the age of the newest stale sample, or negative if there is
	// none.
	Newest time.Duration
	// Unusable counts samples that are no believable number.
	Unusable int
	// Heard is the series last heard of, of those the rule reads; "" if none.
	Heard string
}

func (e *NoAnswer) Error() string {
	var b strings.Builder
	metric := e.metric()
	if e.Silent > 0 && e.Silent < e.Asked {
		fmt.Fprintf(&b, "%d of %s have fallen silent: no usable sample of %s younger than %s", e.Silent, e.Subject, metric, e.Rule.MaxAge)
	} else {
		fmt.Fprintf(&b, "no sample of %s younger than %s for %s", metric, e.Rule.MaxAge, e.Subject)
	}
	if e.Newest >= 0 {
		fmt.Fprintf(&b, "; the newest is %s old", e.Newest.Round(time.Second))
	}
	if e.Unusable > 0 {
		fmt.Fprintf(&b, "; %d are NaN, infinite or outside [%g, %g]", e.Unusable, e.Rule.Minimum, e.Rule.Maximum)
	}
	return b.String()
}

// metric names what is missing. Where nothing was ever heard of, the server may
// be any of those the rule knows.
func (e *NoAnswer) metric() string {
	switch first, others := e.Rule.Sources[0].Metric, len(e.Rule.Sources)-1; {
	case e.Heard != "":
		return e.Heard
	case others == 0:
		return first
	default:
		return fmt.Sprintf("%s (%s or any of %d other series)", e.Rule.Name, first, others)
	}
}

// Pod answers for one pod.
func (t *Table) Pod(k Key, selector k8slabels.Selector, now time.Time) (Answer, error) {
	return t.Pods([]Key{k}, selector, now, fmt.Sprintf("Pod %s/%s", k.Namespace, k.Pod))
}

// Pods answers for all pods together: each pod's parts through PerPod, the
// pods through PerWorkload. A pod never heard of is left out: it has not
// started to serve. One that has fallen silent makes the whole an error, since
// a sum or average without it is not the workload's. subject names the pods in
// the error, a *NoAnswer.
func (t *Table) Pods(keys []Key, selector k8slabels.Selector, now time.Time, subject string) (Answer, error) {
	g := gathering{rule: &t.rule, selector: selector, now: now, newest: -1}
	for _, k := range keys {
		g.pod(t.of(k))
	}
	return g.answer(subject, len(keys))
}

// Namespace answers for everything in a namespace that the selector matches.
// A pod that live rejects is gone: its silence means nothing.
func (t *Table) Namespace(namespace string, selector k8slabels.Selector, now time.Time, live func(pod string) bool) (Answer, error) {
	g := gathering{rule: &t.rule, selector: selector, now: now, newest: -1}
	fronts := 0
	for _, k := range t.in(namespace) {
		silent, front := g.pod(t.of(k))
		switch {
		case silent && k.Pod != "" && !live(k.Pod):
			g.silent--
		case silent && front:
			fronts++
		}
	}
	g.withoutFronts(fronts)
	subject := "any series in namespace " + namespace
	if !selector.Empty() {
		subject += " with " + selector.String()
	}
	asked := g.silent + len(g.said)
	if g.silent > 0 && len(g.said) > 0 {
		subject = fmt.Sprintf("%d sources in namespace %s", asked, namespace)
	}
	return g.answer(subject, asked)
}

// External is Namespace for an external metric: a value up to the rule's
// Activation is 0.
func (t *Table) External(namespace string, selector k8slabels.Selector, now time.Time, live func(pod string) bool) (Answer, error) {
	a, err := t.Namespace(namespace, selector, now, live)
	if err == nil && t.rule.Activation > 0 && a.Value <= t.rule.Activation {
		a.Value = 0
	}
	return a, err
}

// AtZero answers for a workload that is meant to have no pods and has none:
// its scale says 0 replicas wanted and 0 there. That the caller merely sees no
// pods is not enough, since they may all have been evicted a moment ago. subject
// names the workload in the error, which is there unless the rule declares a
// value.
func (t *Table) AtZero(now time.Time, subject string) (Answer, error) {
	if t.rule.AtZero == nil {
		return Answer{}, &NoAnswer{Rule: t.rule, Subject: subject, Newest: -1}
	}
	return Answer{Value: *t.rule.AtZero, Time: now, Declared: 1}, nil
}

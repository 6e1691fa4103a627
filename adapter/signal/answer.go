package signal

import (
	"fmt"
	"strings"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// Answer is a number computed from fresh samples only.
type Answer struct {
	Value float64
	// Time of the oldest sample used.
	Time time.Time
	// Pods that contributed.
	Pods int
	// Declared of these have no measurement: their value is the one the rule
	// declares for NaN or for a missing series.
	Declared int
}

// NoAnswer is the error for a missing number. Its text is a full sentence.
type NoAnswer struct {
	Rule    Rule
	Subject string // "3 pods of Deployment chat/vllm"
	// Asked is the number of requested pods. Stale of them had a sample within
	// Forget but have no fresh usable one.
	Asked, Stale int
	// Newest is the age of the newest stale sample, or negative if there is
	// none.
	Newest time.Duration
	// Unusable counts samples that are NaN, infinite or out of range, Crowded
	// those of pods with too many.
	Unusable, Crowded int
	// Clusters: one pod's series are from several clusters.
	Clusters bool
	// Limit is the age beyond which the newest sample is missing.
	Limit time.Duration
	// Series is the name of the series with the newest unusable or stale
	// sample; "" if there is none.
	Series string
}

func (e *NoAnswer) Error() string {
	var b strings.Builder
	metric := e.metric()
	if e.Stale > 0 && e.Stale < e.Asked {
		fmt.Fprintf(&b, "%d of %s are stale: no usable sample of %s younger than %s", e.Stale, e.Subject, metric, e.Limit)
	} else {
		fmt.Fprintf(&b, "no sample of %s younger than %s for %s", metric, e.Limit, e.Subject)
	}
	if len(e.Rule.Exporters) > 0 && e.Rule.Subject == Exported && e.Stale == 0 {
		fmt.Fprintf(&b, "; exporters in namespace %s are trusted, others are not (exporterNamespaces)", strings.Join(e.Rule.Exporters, ", "))
	}
	if e.Newest >= 0 {
		fmt.Fprintf(&b, "; the newest is %s old", e.Newest.Round(time.Second))
	}
	if e.Unusable > 0 {
		fmt.Fprintf(&b, "; %d are NaN, infinite or outside [%g, %g]", e.Unusable, e.Rule.Minimum, e.Rule.Maximum)
	}
	if e.Crowded > 0 {
		fmt.Fprintf(&b, "; a pod has more than %d of them, or %d MiB of labels", maxPodPoints, maxPodBytes>>20)
	}
	if e.Clusters {
		fmt.Fprintf(&b, "; its series are of several clusters: select one by the label %s", clusterLabel)
	}
	return b.String()
}

// metric names the missing series. Without any sample the server may be any of
// those the rule knows.
func (e *NoAnswer) metric() string {
	switch first, others := e.Rule.Sources[0].Metric, len(e.Rule.Sources)-1; {
	case e.Series != "":
		return e.Series
	case others == 0:
		return first
	default:
		return fmt.Sprintf("%s (%s or any of %d other series)", e.Rule.Name, first, others)
	}
}

// Pod answers for one pod.
func (t *Table) Pod(k Key, selector k8slabels.Selector, now time.Time) (Answer, error) {
	return t.Pods(k.Namespace, []string{k.Pod}, selector, now, fmt.Sprintf("Pod %s/%s", k.Namespace, k.Pod))
}

// Pods answers for pods of a namespace together: each pod's parts through PerPod, the
// pods through PerWorkload. A pod without any sample is left out: it has not started
// to serve. A pod is stale if any of its parts is. One stale pod makes the answer an
// error: a sum or average without it is not the workload's. subject names the pods in
// the error, a *NoAnswer.
func (t *Table) Pods(namespace string, pods []string, selector k8slabels.Selector, now time.Time, subject string) (Answer, error) {
	g := t.gathering(selector, now)
	for _, pod := range pods {
		g.pod(t, Key{namespace, pod})
	}
	return g.answer(subject, len(pods))
}

// Namespace answers for everything in a namespace that the selector matches.
func (t *Table) Namespace(namespace string, selector k8slabels.Selector, now time.Time) (Answer, error) {
	g := t.gathering(selector, now)
	for _, k := range t.Keys(namespace) {
		g.pod(t, k)
	}
	g.dropGateways()
	subject := "any series in namespace " + namespace
	if !selector.Empty() {
		subject += " with " + selector.String()
	}
	asked := g.Stale + len(g.values)
	if g.Stale > 0 && len(g.values) > 0 {
		subject = fmt.Sprintf("%d sources in namespace %s", asked, namespace)
	}
	return g.answer(subject, asked)
}

// External is Namespace for an external metric: a value up to the rule's
// Activation is 0.
func (t *Table) External(namespace string, selector k8slabels.Selector, now time.Time) (Answer, error) {
	a, err := t.Namespace(namespace, selector, now)
	if err == nil && t.rule.Activation > 0 && a.Value <= t.rule.Activation {
		a.Value = 0
	}
	return a, err
}

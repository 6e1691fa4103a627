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
}

func (e *NoAnswer) Error() string {
	var b strings.Builder
	if e.Silent > 0 && e.Silent < e.Asked {
		fmt.Fprintf(&b, "%d of %s have fallen silent: no usable sample of %s younger than %s", e.Silent, e.Subject, e.Rule.Sources[0].Metric, e.Rule.MaxAge)
	} else {
		fmt.Fprintf(&b, "no sample of %s younger than %s for %s", e.Rule.Sources[0].Metric, e.Rule.MaxAge, e.Subject)
	}
	if e.Newest >= 0 {
		fmt.Fprintf(&b, "; the newest is %s old", e.Newest.Round(time.Second))
	}
	if e.Unusable > 0 {
		fmt.Fprintf(&b, "; %d are NaN, infinite or outside [%g, %g]", e.Unusable, e.Rule.Minimum, e.Rule.Maximum)
	}
	return b.String()
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
		g.pod(t.points[k])
	}
	return g.answer(subject, len(keys))
}

// Namespace answers for everything in a namespace that the selector matches.
// A pod that live rejects is gone: its silence means nothing.
func (t *Table) Namespace(namespace string, selector k8slabels.Selector, now time.Time, live func(pod string) bool) (Answer, error) {
	g := gathering{rule: &t.rule, selector: selector, now: now, newest: -1}
	for _, k := range t.byNamespace[namespace] {
		silent := g.silent
		g.pod(t.points[k])
		if k.Pod != "" && g.silent > silent && !live(k.Pod) {
			g.silent = silent
		}
	}
	subject := "any series in namespace " + namespace
	if !selector.Empty() {
		subject += " with " + selector.String()
	}
	if g.silent > 0 && len(g.values) > 0 {
		subject = fmt.Sprintf("%d sources in namespace %s", g.silent+len(g.values), namespace)
	}
	return g.answer(subject, g.silent+len(g.values))
}

// gathering collects one value from each pod.
type gathering struct {
	rule     *Rule
	selector k8slabels.Selector
	now      time.Time

	values   []float64
	oldest   time.Time
	silent   int
	unusable int
	newest   time.Duration
}

func (g *gathering) pod(points []point) {
	fresh := make([]*point, 0, 8)
	heard := false
	for i := range points {
		p := &points[i]
		if !g.selector.Empty() && !g.selector.Matches(seriesLabels{p.labels}) {
			continue
		}
		age := g.now.Sub(p.at)
		switch {
		case age > Forget:
		case p.unusable:
			heard = true
			g.unusable++
		case age > g.rule.MaxAge:
			heard = true
			if g.newest < 0 || age < g.newest {
				g.newest = age
			}
		default:
			fresh = append(fresh, p)
		}
	}
	switch {
	case len(fresh) > 0:
		g.values = append(g.values, g.rule.PerPod.of(g.parts(preferred(fresh))))
	case heard:
		g.silent++
	}
}

// preferred keeps the points of the best tier that has any.
func preferred(points []*point) []*point {
	best := points[0].tier
	for _, p := range points {
		best = min(best, p.tier)
	}
	kept := points[:0]
	for _, p := range points {
		if p.tier == best {
			kept = append(kept, p)
		}
	}
	return kept
}

// parts returns one value for each real part of a pod, duplicates merged.
func (g *gathering) parts(points []*point) []float64 {
	if len(points) == 1 {
		g.use(points[0])
		return []float64{points[0].value}
	}
	byIdentity := map[string][]float64{}
	var order []string // a sum must not depend on map iteration
	for _, p := range points {
		g.use(p)
		id := g.rule.identity(p)
		if _, met := byIdentity[id]; !met {
			order = append(order, id)
		}
		byIdentity[id] = append(byIdentity[id], p.value)
	}
	values := make([]float64, len(order))
	for i, id := range order {
		values[i] = g.rule.Duplicates.of(byIdentity[id])
	}
	return values
}

func (g *gathering) use(p *point) {
	if g.oldest.IsZero() || p.at.Before(g.oldest) {
		g.oldest = p.at
	}
}

func (g *gathering) answer(subject string, asked int) (Answer, error) {
	if g.silent > 0 || len(g.values) == 0 {
		return Answer{}, &NoAnswer{
			Rule: *g.rule, Subject: subject, Asked: asked, Silent: g.silent, Newest: g.newest, Unusable: g.unusable,
		}
	}
	return Answer{Value: g.rule.PerWorkload.of(g.values), Time: g.oldest, Pods: len(g.values)}, nil
}

func (r *Rule) identity(p *point) string {
	var b strings.Builder
	for _, name := range r.Identity {
		b.WriteString(p.labels.Get(name))
		b.WriteByte(0)
	}
	return b.String()
}

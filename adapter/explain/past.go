package explain

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Range is the time range of a simulation.
type Range struct {
	From, To time.Time
	// Step is the controller's sync period.
	Step time.Duration
}

// maxSteps bounds the queries of one rule.
const maxSteps = 20_000

// Validate checks the range.
func (r Range) Validate() error {
	switch {
	case r.Step < time.Second:
		return fmt.Errorf("a step of %s is shorter than a second", r.Step)
	case !r.From.Before(r.To):
		return fmt.Errorf("the range begins at %s and ends at %s, which is not later", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	case r.steps() > maxSteps:
		return fmt.Errorf("%d steps of %s are more than %d: take a shorter range or a longer --step", r.steps(), r.Step, maxSteps)
	}
	return nil
}

func (r Range) steps() int { return int(r.To.Sub(r.From)/r.Step) + 1 }

func (r Range) at(i int) time.Time { return r.From.Add(time.Duration(i) * r.Step) }

// history is one rule's state at each step.
type history struct {
	rule     Rule
	tables   []*signal.Table
	failures []error
}

// life is the time of a pod's first and last sample.
type life struct{ first, last time.Time }

// chunk is how many steps one query is about: it bounds the answers in memory.
const chunk = 1000

// recall evaluates a rule at each step of the past, and builds the tables an
// adapter would have had then. progress receives the number of finished steps.
// It is an error if Prometheus answers no query.
func recall(ctx context.Context, rule Rule, namespace string, r Range, lives map[string]life, progress func(done int)) (history, error) {
	h := history{rule: rule}
	table := signal.NewTable(rule.Rule)
	read := func(samples []signal.Sample, at time.Time) {
		table, _ = table.Read(samples, signal.Reading{Evaluated: at, Now: at})
		note(lives, rule.Rule, samples, at)
	}
	if vector, err := ask(ctx, rule, true, namespace, r.From); err == nil {
		read(cache.Samples(vector), r.From)
	}
	good := 0
	for first := 0; first < r.steps(); first += chunk {
		n := min(chunk, r.steps()-first)
		var lines []prom.Line
		var err error
		for _, query := range rule.Queries(false, namespace) {
			var some []prom.Line
			if some, err = rule.Querier.Range(ctx, query, r.at(first), r.at(first+n-1), r.Step); err != nil {
				break
			}
			lines = append(lines, some...)
		}
		if ctx.Err() != nil {
			return h, ctx.Err()
		}
		samples := make([]prom.Vector, n)
		for _, l := range lines {
			for _, p := range l.Points {
				if i := int(p.Time.Sub(r.at(first)).Round(r.Step) / r.Step); i >= 0 && i < n {
					samples[i] = append(samples[i], prom.Sample{Labels: l.Labels, Value: p.Value})
				}
			}
		}
		for i := range n {
			if err == nil {
				good++
				read(cache.Samples(samples[i]), r.at(first+i))
			}
			h.tables, h.failures = append(h.tables, table), append(h.failures, err)
		}
		if good == 0 {
			return h, fmt.Errorf("querying %s: %w", rule.Name, err)
		}
		progress(first + n)
	}
	return h, nil
}

// note records each pod's first and last sample.
func note(lives map[string]life, rule signal.Rule, samples []signal.Sample, at time.Time) {
	for _, s := range samples {
		pod, seen, ok := rule.Scraped(s)
		if !ok {
			continue
		}
		if seen.After(at) {
			seen = at
		}
		l, known := lives[pod]
		if !known || seen.Before(l.first) {
			l.first = seen
		}
		if seen.After(l.last) {
			l.last = seen
		}
		lives[pod] = l
	}
}

// living returns the pods that existed at a time: from their first sample to
// their last, or to the end if they reported until then. A gap between samples
// makes a pod stale, not gone.
func living(lives map[string]life, at, end time.Time, limit time.Duration, belongs func(pod string) bool) []string {
	var pods []string
	for pod, l := range lives {
		if belongs(pod) && !at.Before(l.first) && (!at.After(l.last.Add(limit)) || !end.After(l.last.Add(2*limit))) {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	return pods
}

// naming matches a past pod to its workload by name: the API server no longer
// has the pod.
func naming(kind, name string, now []string) func(pod string) bool {
	suffix := map[string]string{
		"Deployment": `[a-z0-9]{1,10}-[a-z0-9]{5}`, "StatefulSet": `[0-9]+`,
		"ReplicaSet": `[a-z0-9]{5}`, "ReplicationController": `[a-z0-9]{5}`, "DaemonSet": `[a-z0-9]{5}`,
	}[kind]
	if suffix == "" {
		return func(pod string) bool { return slices.Contains(now, pod) || strings.HasPrefix(pod, name+"-") }
	}
	named := regexp.MustCompile("^" + regexp.QuoteMeta(name) + "-" + suffix + "$")
	return func(pod string) bool { return slices.Contains(now, pod) || named.MatchString(pod) }
}

package explain

import (
	"context"
	"fmt"
	"maps"
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

// life is the time of a pod's first and last sample, and the time between its last two
// scrapes.
type life struct {
	first, last time.Time
	between     time.Duration
}

// chunk is how many steps one query covers. It bounds the answers in memory.
const chunk = 1000

// recall evaluates the rule at each step of the past, and builds the tables an
// adapter would have had then. progress receives the number of finished steps.
// It is an error if Prometheus answers no query.
func (m *simulated) recall(ctx context.Context, r Range, lives map[string]life, progress func(done int)) error {
	table := signal.NewTable(m.rule.Rule)
	read := func(samples []signal.Sample, at time.Time) {
		table, _ = table.Read(samples, signal.Reading{Evaluated: at, Now: at})
		note(lives, m.rule.Rule, samples, at)
	}
	if vector, err := ask(ctx, m.rule, true, m.namespace, r.From); err == nil {
		read(cache.Samples(vector), r.From)
	}
	answered := false
	for first := 0; first < r.steps(); first += chunk {
		n := min(chunk, r.steps()-first)
		samples, err := m.samples(ctx, r, first, n)
		switch answered = answered || err == nil; {
		case ctx.Err() != nil:
			return ctx.Err()
		case !answered:
			return fmt.Errorf("querying %s: %w", m.name, err)
		}
		for i := range n {
			if err == nil {
				read(cache.Samples(samples[i]), r.at(first+i))
			}
			m.tables, m.failures = append(m.tables, table), append(m.failures, err)
		}
		progress(first + n)
	}
	return nil
}

// samples queries the rule at n steps.
func (m *simulated) samples(ctx context.Context, r Range, first, n int) ([]prom.Vector, error) {
	all := make([]prom.Vector, n)
	for _, query := range m.rule.Queries(false, m.namespace) {
		lines, err := m.rule.Querier.Range(ctx, query, r.at(first), r.at(first+n-1), r.Step)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			for _, p := range l.Points {
				if i := int(p.Time.Sub(r.at(first)).Round(r.Step) / r.Step); i >= 0 && i < n {
					all[i] = append(all[i], prom.Sample{Labels: l.Labels, Value: p.Value})
				}
			}
		}
	}
	return all, nil
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
			if known {
				l.between = seen.Sub(l.last)
			}
			l.last = seen
		}
		lives[pod] = l
	}
}

// among returns the lives of some pods.
func among(lives map[string]life, belongs func(pod string) bool) map[string]life {
	some := maps.Clone(lives)
	maps.DeleteFunc(some, func(pod string, _ life) bool { return !belongs(pod) })
	return some
}

// living returns the pods that existed at a time: from their first sample to
// their last, or to the end if they reported until then. A gap between samples
// makes a pod stale, not gone.
func living(lives map[string]life, at, end time.Time, limit time.Duration) []string {
	var pods []string
	for pod, l := range lives {
		limit := max(limit, l.between)
		if !at.Before(l.first) && (!at.After(l.last.Add(limit)) || !end.After(l.last.Add(2*limit))) {
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

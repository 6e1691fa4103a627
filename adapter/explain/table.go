package explain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier is the part of *prom.Client that explain needs.
type Querier interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
	Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error)
}

// reading is an answer of Prometheus to a rule.
type reading struct {
	table *signal.Table
	signal.Reading
	dropped map[signal.Reason]int // series of the namespace without a usable value
}

// read queries a rule like an adapter that has just started: with the recent
// past, so that it knows the stale pods.
func read(ctx context.Context, rule Rule, namespace string) (reading, error) {
	now := time.Now()
	r := reading{Reading: signal.Reading{Evaluated: now, Now: now}}
	r.table = signal.NewTable(rule.Rule)
	for _, over := range []bool{true, false} {
		vector, err := ask(ctx, rule, over, namespace, time.Time{})
		if err != nil {
			r.table = signal.NewTable(rule.Rule)
			return r, err
		}
		if len(vector) > 0 {
			r.Evaluated = vector[0].Time
		}
		r.table, r.dropped = r.table.Read(cache.Samples(vector), r.Reading)
	}
	return r, nil
}

// ask sends a rule's queries about the present or, with over, about the recent
// past.
func ask(ctx context.Context, rule Rule, over bool, namespace string, at time.Time) (all prom.Vector, err error) {
	for _, query := range rule.Queries(over, namespace) {
		vector, err := rule.Querier.Query(ctx, query, at)
		if err != nil {
			return nil, err
		}
		all = append(all, vector...)
	}
	return all, nil
}

// Row is one series behind an answer.
type Row struct {
	Pod    string `json:"pod"`
	Metric string `json:"metric"`
	// Labels that distinguish the series from others of the same pod.
	Labels string `json:"labels,omitempty"`
	// Value as text: JSON has no NaN.
	Value string `json:"value"`
	// AgeSeconds of the sample; for a dropped value, of the answer.
	AgeSeconds float64 `json:"ageSeconds"`
	// Reason why the series does not count, empty if it does.
	Reason string `json:"reason,omitempty"`

	source int
}

// rows lists a metric's series as they are in the adapter's table. counts reports
// whether a pod counts for the metric.
func (r reading) rows(rule signal.Rule, a asked, counts func(pod string) bool) []Row {
	rows, best := []Row{}, map[string]signal.Source{} // the source used, by pod
	for _, k := range r.table.Keys(a.namespace) {
		for p := range r.table.About(k, a.selector, r.Now) {
			source := rule.Sources[p.Source]
			row := Row{
				Pod: k.Pod, Metric: source.Metric, Labels: distinct(rule, source, p.Labels), Value: strconv.FormatFloat(p.Value, 'g', -1, 64), Reason: string(p.Dropped),
				AgeSeconds: math.Round(1000*max(0, r.Now.Sub(p.Time).Seconds())) / 1000, source: p.Source,
			}
			if p.Declared {
				row.Value += " declared"
			}
			if (p.Dropped == "" || p.Dropped == signal.Stale) && k.Pod != "" && !counts(k.Pod) {
				row.Reason = "pod does not count"
			}
			if known, ok := best[k.Pod]; row.Reason == "" && (!ok || source.Rank() < known.Rank()) {
				best[k.Pod] = source
			}
			rows = append(rows, row)
		}
	}
	for i, row := range rows {
		if used := best[row.Pod]; row.Reason == "" && rule.Sources[row.source].Rank() > used.Rank() {
			rows[i].Reason = "superseded by " + used.Metric
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.source, b.source), cmp.Compare(a.Labels, b.Labels))
	})
	return rows
}

// distinct are the labels shown in a column: the identity, job and instance.
func distinct(rule signal.Rule, source signal.Source, ls labels.Labels) string {
	var parts []string
	for _, name := range append(slices.Clone(source.Parts(&rule)), "job", "instance") {
		if v := ls.Get(name); v != "" {
			parts = append(parts, fmt.Sprintf("%s=%s", name, v))
		}
	}
	return strings.Join(parts, " ")
}

// Rule is one of the adapter's rules, its source and its Prometheus.
type Rule struct {
	signal.Rule
	Source  string // "built in", or a file
	Querier Querier
}

// keda is the label by which KEDA's metrics server knows the ScaledObject of a request.
const keda = "scaledobject.keda.sh/name"

// rule returns the rule of a metric. elsewhere says who may serve a metric without a rule.
func (o Options) rule(a asked) (_ Rule, elsewhere string, err error) {
	names := make([]string, len(o.Rules))
	for i, rule := range o.Rules {
		if rule.Name == a.name {
			return rule, "", nil
		}
		names[i] = rule.Name
	}
	if object, ok := a.selector.RequiresExactMatch(keda); ok && a.kind == autoscaling.ExternalMetricSourceType {
		return Rule{}, fmt.Sprintf("%s is KEDA's, of the ScaledObject %s", a.name, object), nil
	}
	if o.Elsewhere != "" {
		return Rule{}, fmt.Sprintf("no rule is called %s, but %s", a.name, o.Elsewhere), nil
	}
	slices.Sort(names)
	return Rule{}, "", fmt.Errorf("no rule of the adapter is called %s; it has %s", a.name, strings.Join(names, ", "))
}

package states

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// engine is Prometheus' own.
var engine = memstore.NewEngine(nil)

// ruleEvery is the time between two evaluations of a recording rule.
const ruleEvery = 30 * time.Second

// WithRules returns the state with the series of our recording rules. Rules of a missing
// family are evaluated without it.
func (s State) WithRules() State {
	s.ruled = true
	return s
}

// ruled caches the rules' series of a recording, by rule and families left out. A rule
// is evaluated at its first use.
type ruled struct{ made sync.Map }

// of returns what a rule records over a part of the recording, nil for no rule's
// name. A rule changes only without a family that it reads.
func (r *ruled) of(record string, over view) []*memstore.Recorded {
	rule, ok := rules.Find(record)
	if !ok || slices.Contains(over.without, record) {
		return nil
	}
	hidden := slices.DeleteFunc(namesIn(rule.Expr), func(name string) bool { return !over.hidden(name) })
	made, _ := r.made.LoadOrStore(fmt.Sprintf("%s %v %p", record, hidden, over.DB), sync.OnceValue(func() []*memstore.Recorded {
		return evaluated(rule, view{DB: over.DB, without: over.without})
	}))
	return made.(func() []*memstore.Recorded)()
}

// evaluated is what a rule records. A series that is missing at the next evaluation gets a staleness marker, as in
// Prometheus.
func evaluated(r rules.Rule, over view) (all []*memstore.Recorded) {
	lines, err := memstore.Server{Data: over, Engine: engine}.Range(context.Background(), r.Expr, begin, begin.Add(Length), ruleEvery)
	if err != nil {
		panic(fmt.Sprintf("a rule of ours: %s: %v", r.Record, err)) // the rules' own tests find this first
	}
	for _, l := range lines {
		one := &memstore.Recorded{Labels: labels.NewBuilder(l.Labels).Set(labels.MetricName, r.Record).Labels()}
		next := int64(0)
		for _, p := range l.Points {
			ms := p.Time.UnixMilli()
			if next != 0 && ms > next {
				one.End(next)
			}
			one.Add(ms, p.Value)
			next = ms + ruleEvery.Milliseconds()
		}
		if next <= begin.Add(Length).UnixMilli() {
			one.End(next)
		}
		all = append(all, one)
	}
	return all
}

// namesIn are the names of the series that PromQL reads, those that patterns match included, each once. Invalid PromQL,
// which its own tests find, has none.
func namesIn(expr string) []string {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range slices.Concat(parser.ExtractSelectors(e)...) {
		switch {
		case m.Name != labels.MetricName:
		case m.Type == labels.MatchRegexp:
			names = append(names, m.SetMatches()...)
		default:
			names = append(names, m.Value)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

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
type ruled struct {
	mu   sync.Mutex
	made map[string][]*memstore.Recorded
}

// of returns what a rule records over a part of the recording, nil for no rule's
// name. A rule changes only without a family that it reads.
func (r *ruled) of(record string, over view) []*memstore.Recorded {
	rule, ok := rules.Find(record)
	if !ok || slices.Contains(over.without, record) {
		return nil
	}
	var hidden []string
	names, _ := Reads(rule.Expr) // caught by the rules' own test
	for _, name := range names {
		if over.hidden(name) {
			hidden = append(hidden, name)
		}
	}
	key := fmt.Sprintf("%s %v %p", record, hidden, over.DB)
	r.mu.Lock()
	defer r.mu.Unlock()
	made, ok := r.made[key]
	if !ok {
		var err error
		if made, err = evaluated(rule, view{DB: over.DB, without: over.without}); err != nil {
			panic(fmt.Sprintf("a rule of ours: %v", err)) // caught by its own tests first
		}
		if r.made == nil {
			r.made = map[string][]*memstore.Recorded{}
		}
		r.made[key] = made
	}
	return made
}

// evaluated is what a rule records. A series that is missing at the next evaluation gets
// a staleness marker, as in Prometheus.
func evaluated(r rules.Rule, over view) ([]*memstore.Recorded, error) {
	q, err := engine.NewRangeQuery(context.Background(), over, nil, r.Expr, begin, begin.Add(Length), ruleEvery)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Record, err)
	}
	defer q.Close()
	matrix, err := q.Exec(context.Background()).Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Record, err)
	}
	all := make([]*memstore.Recorded, 0, len(matrix))
	for _, found := range matrix {
		one := &memstore.Recorded{Labels: labels.NewBuilder(found.Metric).Set(labels.MetricName, r.Record).Labels()}
		next := int64(0)
		for _, p := range found.Floats {
			if next != 0 && p.T > next {
				one.End(next)
			}
			one.Add(p.T, p.F)
			next = p.T + ruleEvery.Milliseconds()
		}
		if next <= begin.Add(Length).UnixMilli() {
			one.End(next)
		}
		all = append(all, one)
	}
	return all, nil
}

// Reads are the names of the series that PromQL reads, sorted.
func Reads(expr string) ([]string, error) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var names []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), nil
}

package states

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/rules"
)

// ruleEvery is the time between two evaluations of a recording rule.
const ruleEvery = 30 * time.Second

// WithRules returns the state as a Prometheus has it that evaluates our recording
// rules: their series are there too. Without a family, rules say what they then say.
func (s State) WithRules() State {
	s.ruled = true
	return s
}

// ruled keeps what the rules make of a recording, by the families left out.
type ruled struct {
	mu   sync.Mutex
	made map[string]*set
}

// rulesOf evaluates the rules over a recording without some families. Only those that
// read one of them can say something else than they say of the whole.
func (r *ruled) rulesOf(key string, of *set, without []string) (*set, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = map[string]*set{}
	}
	whole := r.made[key]
	if whole == nil {
		whole = newSet()
		for _, one := range rules.All() {
			if err := whole.evaluate(one, view{set: of}); err != nil {
				return nil, err
			}
		}
		r.made[key] = whole
	}
	full := key + strings.Join(without, ",")
	if there := r.made[full]; there != nil {
		return there, nil
	}
	part := newSet()
	for _, one := range rules.All() {
		if slices.Contains(without, one.Record) {
			continue
		}
		if !slices.ContainsFunc(Reads(one), func(name string) bool { return view{set: of, without: without}.hidden(name) }) {
			part.byName[one.Record] = whole.byName[one.Record]
			continue
		}
		if err := part.evaluate(one, view{set: of, without: without}); err != nil {
			return nil, err
		}
	}
	r.made[full] = part
	return part, nil
}

// Reads are the names of the series that a rule reads, sorted.
func Reads(r rules.Rule) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		return nil // the rules' own test says so
	}
	var names []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// evaluate adds what a rule records. A series that is not there at the next
// evaluation is marked as ended, as Prometheus does.
func (s *set) evaluate(r rules.Rule, over view) error {
	q, err := newEngine().NewRangeQuery(context.Background(), over, nil, r.Expr, begin, begin.Add(Length), ruleEvery)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Record, err)
	}
	defer q.Close()
	matrix, err := q.Exec(context.Background()).Matrix()
	if err != nil {
		return fmt.Errorf("%s: %w", r.Record, err)
	}
	for _, found := range matrix {
		one := s.add(labels.NewBuilder(found.Metric).Set(labels.MetricName, r.Record).Labels())
		next := int64(0)
		for _, p := range found.Floats {
			if next != 0 && p.T > next {
				one.add(next, math.Float64frombits(value.StaleNaN))
			}
			one.add(p.T, p.F)
			next = p.T + ruleEvery.Milliseconds()
		}
		if next <= begin.Add(Length).UnixMilli() {
			one.add(next, math.Float64frombits(value.StaleNaN))
		}
	}
	return nil
}

package compat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// point is the value of an object.
type point struct {
	value float64
	// at is the time of its oldest sample on this process's clock, or of the answer if the
	// query does not return that. It is zero if the value has no present sample in it.
	at  time.Time
	odd bool // a sample's time is impossible
}

// limit is the value whose thousandths overflow an int64, and so a quantity.
const limit = math.MaxInt64 / 1000

// wrong returns why a point is not usable, for the metric and in words.
func (pt point) wrong(now time.Time, maxAge time.Duration) (signal.Reason, error) {
	switch age := now.Sub(pt.at); {
	case math.IsNaN(pt.value):
		return signal.NotANumber, errors.New("the value is NaN")
	case math.IsInf(pt.value, 0):
		return signal.Infinite, errors.New("the value is infinite")
	case math.Abs(pt.value) >= limit || pt.odd:
		return signal.OutOfRange, errors.New("the value, or its time, is out of range")
	case pt.at.IsZero():
		return signal.Stale, errors.New("its series have no present sample")
	case age > maxAge:
		return signal.Stale, fmt.Errorf("the value is %s old, more than %s", age.Round(time.Second), maxAge)
	}
	return "", nil
}

// table is one answer for a namespace, by object. For an external metric the key is
// the namespace. It is "" if the query itself fixes the namespace.
// A table is immutable.
type table map[string]point

// reader returns the function that reads the plan's answers into tables.
func (p *plan) reader(maxAge time.Duration) func(any, prom.Vector, signal.Reading) (any, int, map[signal.Reason]int) {
	return func(_ any, v prom.Vector, r signal.Reading) (any, int, map[signal.Reason]int) {
		t, oldest, dropped, values := table{}, map[string]float64{}, map[signal.Reason]int{}, 0
		label := cmp.Or(p.object, p.namespace)
		for _, s := range v {
			k := s.Labels.Get(label)
			switch part := s.Labels.Get(signal.PartLabel); {
			case part == "":
			case part == "t": // in Unix seconds
				oldest[k] = s.Value
			case k != "" || label == "":
				t[k] = point{value: s.Value}
				values++
			default:
				dropped[signal.Unlabelled]++
				values++
			}
		}
		for k, pt := range t {
			scraped, known := oldest[k]
			switch age, plausible := r.Age(scraped, maxAge); {
			case !known && !p.aged:
				pt.at = r.Now
			case scraped == 0:
			default:
				pt.at, pt.odd = r.Now.Add(-age), !plausible
			}
			if why, _ := pt.wrong(r.Now, maxAge); why != "" {
				dropped[why]++
			}
			t[k] = pt
		}
		return t, values, dropped
	}
}

// answer returns the usable value of an object; of a namespace, for an external metric.
func (t table) answer(object string, now time.Time, maxAge time.Duration) (point, error) {
	pt, ok := t[object]
	if !ok {
		pt, ok = t[""]
	}
	if !ok {
		return pt, errors.New("the query has no series for it")
	}
	_, err := pt.wrong(now, maxAge)
	return pt, err
}

// withAges returns a query for one value of e for each set of key labels, aggregated by an
// operator, and for the oldest scrape time of its series. Part "v" is the value, "t" is a Unix
// time. aged is false if there may be a value without a time.
func withAges(e parser.Expr, by parser.ItemType, keys []string) (whole parser.Expr, aged bool) {
	whole = signal.Part("v", &parser.AggregateExpr{Op: by, Expr: e, Grouping: keys})
	selectors, aged := leaves(e, keys)
	if len(selectors) > 0 {
		oldest := &parser.AggregateExpr{Op: parser.MIN, Expr: signal.ScrapeTimes(selectors), Grouping: keys}
		whole = &parser.BinaryExpr{
			Op: parser.LOR, LHS: whole, RHS: signal.Part("t", oldest), VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
		}
	}
	return whole, aged
}

// leaves returns the selectors of present samples that have the key labels. all is true if every
// value has one of them. An offset, or a range longer than Prometheus' lookback, is the author's
// explicit choice of how old a value may be: such a selector is not returned.
func leaves(e parser.Expr, keys []string) (found []*parser.VectorSelector, all bool) {
	all = true
	seen := map[string]bool{}
	for s, path := range signal.Selectors(e) {
		keyed := !slices.ContainsFunc(keys, func(key string) bool { return !narrowed(s, key) })
		switch text := s.String(); {
		case !keyed || past(s, path) || slices.ContainsFunc(path, absence):
			all = all && !slices.ContainsFunc(path, alternative)
		case !seen[text]:
			seen[text] = true
			found = append(found, s)
		}
	}
	return found, all && len(found) > 0
}

// alternative reports whether an operation may have a value although a selector below it has
// no series.
func alternative(n parser.Node) bool {
	b, ok := n.(*parser.BinaryExpr)
	return ok && (b.Op == parser.LOR || b.Op == parser.LUNLESS) || absence(n)
}

// absence reports whether a call has a value where there is no series.
func absence(n parser.Node) bool {
	c, ok := n.(*parser.Call)
	return ok && (c.Func.Name == "absent" || c.Func.Name == "absent_over_time")
}

// past reports whether a selector reads the past on purpose, so that its age
// means nothing.
func past(s *parser.VectorSelector, path []parser.Node) bool {
	return signal.Shifted(s, path) || slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			return n.RangeExpr != nil || n.Range > signal.Lookback
		case *parser.SubqueryExpr:
			return n.RangeExpr != nil || n.Range > signal.Lookback
		}
		return false
	})
}

// window returns the longest range of a query in seconds; nil if it has none.
func window(e parser.Expr) *int64 {
	var longest time.Duration
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			longest = max(longest, n.Range)
		case *parser.SubqueryExpr:
			longest = max(longest, n.Range)
		}
		return nil
	})
	if longest < time.Second {
		return nil
	}
	return new(int64(longest.Seconds()))
}

package compat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// key names an object in an answer; a part that the query fixes is "".
type key struct{ namespace, object string }

// point is one value for a key.
type point struct {
	value float64
	at    time.Time     // of its oldest sample, on this process's clock
	wrong signal.Reason // why it is not usable; "" if it is
}

// table is one answer. It is immutable.
type table map[key][]point

// reader returns the function that reads the plan's answers into tables.
func (p *plan) reader(maxAge time.Duration) func(any, prom.Vector, signal.Reading) (any, int, map[signal.Reason]int) {
	return func(_ any, v prom.Vector, r signal.Reading) (any, int, map[signal.Reason]int) {
		times := p.times(v)
		t, dropped, series := table{}, map[signal.Reason]int{}, 0
		for _, s := range v {
			if s.Labels.Get(signal.PartLabel) != "v" {
				continue
			}
			series++
			k, ok := p.key(s.Labels)
			if !ok {
				dropped[signal.Unlabelled]++
				continue
			}
			pt := judge(s.Value, r)
			if pt.wrong == "" && p.aged {
				if unix, known := times[k]; known || !p.constant || k != (key{}) {
					pt.scraped(unix, r, maxAge)
				}
			}
			if pt.wrong != "" {
				dropped[pt.wrong]++
			}
			t[k] = append(t[k], pt)
		}
		return t, series, dropped
	}
}

// key returns the object a series of the answer is about; false if it names none.
func (p *plan) key(ls prom.Labels) (key, bool) {
	var k key
	ok := true
	if p.object != "" {
		k.object = ls.Get(p.object)
		ok = k.object != ""
	}
	if p.namespace != "" && p.namespace != p.object {
		k.namespace = ls.Get(p.namespace)
		ok = ok && k.namespace != ""
	}
	// A constant default has no labels and applies to every namespace.
	return k, ok || p.constant && k == key{}
}

// times returns the oldest scrape time of each key, in Unix seconds.
func (p *plan) times(v prom.Vector) map[key]float64 {
	oldest := map[key]float64{}
	for _, s := range v {
		if label := s.Labels.Get(signal.PartLabel); label == "" || label[0] != 't' {
			continue
		}
		k, _ := p.key(s.Labels)
		if before, met := oldest[k]; !met || s.Value < before {
			oldest[k] = s.Value
		}
	}
	return oldest
}

// limit is where thousandths overflow an int64, and with it a quantity.
const limit = math.MaxInt64 / 1000

func judge(value float64, r signal.Reading) point {
	pt := point{value: value, at: r.Now}
	switch {
	case math.IsNaN(value):
		pt.wrong = signal.NotANumber
	case math.IsInf(value, 0):
		pt.wrong = signal.Infinite
	case math.Abs(value) >= limit:
		pt.wrong = signal.OutOfRange
	}
	return pt
}

// scraped sets a point's time. A missing time, or one more than maxAge in the
// future, makes it unusable.
func (pt *point) scraped(unix float64, r signal.Reading, maxAge time.Duration) {
	if !(unix > 0 && unix < 1e11) {
		pt.wrong = signal.Stale
		return
	}
	age := r.Evaluated.Sub(time.UnixMilli(int64(unix * 1000)))
	if age < -maxAge {
		pt.wrong = signal.OutOfRange
		return
	}
	pt.at = r.Now.Add(-max(age, 0))
	if age > maxAge {
		pt.wrong = signal.Stale
	}
}

// answer is a number, and the age of the oldest sample in it.
type answer struct {
	value float64
	at    time.Time
}

// object answers for one object. If the query returns several series for it, the
// largest usable one counts: v0.12.0 takes any of them.
func (t table) object(k key, now time.Time, maxAge time.Duration) (answer, error) {
	var best *point
	why := ""
	for i := range t[k] {
		pt := &t[k][i]
		if reason := pt.unusable(now, maxAge); reason != "" {
			why = reason
			continue
		}
		if best == nil || pt.value > best.value {
			best = pt
		}
	}
	switch {
	case best != nil:
		return answer{best.value, best.at}, nil
	case why != "":
		return answer{}, errors.New(why)
	}
	return answer{}, errors.New("the query has no series for it")
}

// sum answers for all series of a key. One unusable series makes the sum
// unusable: without it the sum is too low.
func (t table) sum(k key, now time.Time, maxAge time.Duration) (answer, error) {
	points := t[k]
	if len(points) == 0 {
		points = t[key{}]
	}
	if len(points) == 0 {
		return answer{}, errors.New("the query has no series for it")
	}
	total := answer{at: points[0].at}
	for _, pt := range points {
		if why := pt.unusable(now, maxAge); why != "" {
			return answer{}, fmt.Errorf("of %d series one is unusable: %s", len(points), why)
		}
		total.value += pt.value
		if pt.at.Before(total.at) {
			total.at = pt.at
		}
	}
	if math.Abs(total.value) >= limit {
		return answer{}, errors.New("the sum is too large")
	}
	return total, nil
}

func (pt *point) unusable(now time.Time, maxAge time.Duration) string {
	age := now.Sub(pt.at)
	switch {
	case pt.wrong == signal.NotANumber:
		return "the value is NaN"
	case pt.wrong == signal.Infinite:
		return "the value is infinite"
	case pt.wrong == signal.OutOfRange:
		return "the value, or its time, is out of range"
	case pt.wrong == signal.Stale && age > maxAge:
		return fmt.Sprintf("its oldest sample is %s old, more than %s", age.Round(time.Second), maxAge)
	case pt.wrong == signal.Stale:
		return "its series have no present sample"
	case age > maxAge:
		return fmt.Sprintf("the last answer is %s old, more than %s", age.Round(time.Second), maxAge)
	}
	return ""
}

// maxLeaves bounds the selectors of one query whose ages are queried.
const maxLeaves = 8

// withAges joins a query's values with the oldest scrape times of their series
// per key labels: part "v" is a value, "t0", "t1", … are Unix times. aged is
// false if no selector of the query has an age.
func withAges(e parser.Expr, keys []string) (whole parser.Expr, aged bool) {
	whole = signal.Part("v", e)
	for i, leaf := range leaves(e, keys) {
		oldest := &parser.AggregateExpr{Op: parser.MIN, Expr: signal.Call("timestamp", leaf), Grouping: keys}
		whole = &parser.BinaryExpr{
			Op: parser.LOR, LHS: whole, RHS: signal.Part("t"+strconv.Itoa(i), oldest),
			VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
		}
		aged = true
	}
	return whole, aged
}

// leaves returns the selectors of present samples that have the key labels. A range that
// is longer than Prometheus' lookback is the author's explicit choice of how old a value
// may be, as an offset is.
func leaves(e parser.Expr, keys []string) []parser.Expr {
	var found []parser.Expr
	seen := map[string]bool{}
	for s, path := range signal.Selectors(e) {
		keyed := !slices.ContainsFunc(keys, func(key string) bool { return !narrowed(s, key) })
		if text := s.String(); keyed && !past(s, path) && !seen[text] && len(found) < maxLeaves {
			seen[text] = true
			found = append(found, s)
		}
	}
	return found
}

// past reports whether a selector's age means nothing.
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

// window returns the longest range of a query; zero if it has none.
func window(e parser.Expr) time.Duration {
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
	return longest
}

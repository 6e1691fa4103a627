package e2e

import (
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// reply is an adapter's answer.
type reply struct {
	code  int
	text  string // the error's text
	items []item
}

type item struct {
	DescribedObject struct{ Kind, Namespace, Name, APIVersion string }
	Timestamp       time.Time
	WindowSeconds   *int64
	Value           resource.Quantity
}

func (r reply) ok() bool { return r.code == 200 }

// byName returns the values by object.
func (r reply) byName() map[string]float64 {
	all := map[string]float64{}
	for _, i := range r.items {
		all[i.DescribedObject.Name] = i.Value.AsApproximateFloat64()
	}
	return all
}

// sum is the value that an HPA computes from the items of an external metric.
func (r reply) sum() float64 {
	var milli int64
	for _, i := range r.items {
		milli += i.Value.MilliValue()
	}
	return float64(milli) / 1000
}

// alike compares values. Rates are measured at two moments, so they may differ by a twentieth.
func alike(q question, a, b float64) bool {
	if q.metric == "http_requests_per_second" {
		return math.Abs(a-b) <= 0.05*math.Max(math.Abs(a), math.Abs(b))
	}
	return a == b
}

// agree reports whether each of our objects is also one of theirs, and ok is true for the values.
func agree(theirs, ours reply, ok func(theirs, ours float64) bool) bool {
	t := theirs.byName()
	for name, w := range ours.byName() {
		if v, there := t[name]; !there || !ok(v, w) {
			return false
		}
	}
	return true
}

// same reports whether an HPA would do the same with both answers: equal values for the same objects, or no
// answer in either case.
func same(q question, theirs, ours reply) bool {
	if !theirs.ok() || !ours.ok() {
		return !theirs.ok() && !ours.ok()
	}
	if q.external {
		return len(theirs.items) > 0 == (len(ours.items) > 0) && alike(q, theirs.sum(), ours.sum())
	}
	return len(theirs.byName()) == len(ours.byName()) && len(theirs.items) == len(ours.items) && agree(theirs, ours, func(v, w float64) bool { return alike(q, v, w) })
}

// onlyLess reports whether ours lacks some or all of their objects and has equal values for the rest.
func onlyLess(q question, theirs, ours reply) bool {
	if !theirs.ok() || q.external || !ours.ok() {
		return theirs.ok() && !ours.ok()
	}
	return len(ours.items) < len(theirs.items) && agree(theirs, ours, func(v, w float64) bool { return alike(q, v, w) })
}

// eachOr reports whether both have the same objects, each with equal values or values that differ in the
// given way. At least one must differ.
func eachOr(theirs, ours reply, differ func(theirs, ours float64) bool) (some bool) {
	return theirs.ok() && ours.ok() && len(theirs.byName()) == len(ours.byName()) && agree(theirs, ours, func(v, w float64) bool {
		some = some || v != w
		return v == w || differ(v, w)
	}) && some
}

func about(q question, metrics ...string) bool { return slices.Contains(metrics, q.metric) }

// difference is a difference that docs/internals/adapter-compat.md lists, named by the page's words in bold,
// with a function that recognizes it.
type difference struct {
	name string
	// values means that values differ, so an HPA might act differently. Other differences are about error codes and
	// fields that no HPA reads.
	values bool
	is     func(q question, theirs, ours reply) bool
}

var differences = []difference{
	{"NaN is missing", true, func(q question, t, o reply) bool {
		return about(q, "bad_nan", "lag_nan", "lag_scalar") && onlyLess(q, t, o)
	}},
	{"An infinite value is missing", true, func(q question, t, o reply) bool {
		return about(q, "bad_inf", "lag_inf") && onlyLess(q, t, o)
	}},
	{"A value too large is missing", true, func(q question, t, o reply) bool {
		return about(q, "bad_huge", "lag_huge") && onlyLess(q, t, o)
	}},
	{"A stale value is missing", true, func(q question, t, o reply) bool {
		return about(q, "old_queue", "lag_old") && onlyLess(q, t, o)
	}},
	{"Selector values are literal", true, func(q question, t, o reply) bool {
		return strings.Contains(q.selector, "in (1.2") && !same(q, t, o) && t.ok() && (o.ok() || !strings.Contains(q.selector, "notin"))
	}},
	{"Of duplicates the largest counts", true, func(q question, t, o reply) bool {
		return about(q, "running") && eachOr(t, o, func(theirs, ours float64) bool { return theirs < ours && ours == 8 })
	}},
	{"What is not zero does not become zero", true, func(q question, t, o reply) bool {
		return about(q, "tiny", "relative") && eachOr(t, o, func(theirs, ours float64) bool { return theirs == 0 && ours == 0.001 })
	}},
	{"No series is an error", true, func(q question, t, o reply) bool {
		return t.ok() && len(t.items) == 0 && o.code == 404
	}},
	{"A legal key is no failure", true, func(q question, t, o reply) bool {
		return t.code == 500 && o.ok() && strings.ContainsAny(q.selector, "./-")
	}},
	{"A legal key is no failure", false, func(q question, t, o reply) bool {
		return t.code == 500 && o.code == 404 && strings.ContainsAny(q.selector, "./-")
	}},
	{"A selector may use !=", true, func(q question, t, o reply) bool {
		return !q.external && strings.Contains(q.selector, "!=") && t.code == 500 && o.ok()
	}},
	{"An external answer is one item", false, func(q question, t, o reply) bool {
		return q.external && t.ok() && o.ok() && len(t.items) > 1 && len(o.items) == 1
	}},
	{"An operator without PromQL is a bad request", false, func(q question, t, o reply) bool {
		return strings.ContainsAny(q.selector, "<>") && o.code == 400 && (t.code == 404 || t.code == 500)
	}},
	{"An object's API version is spelt as usual", false, func(q question, t, o reply) bool {
		return !q.external && t.ok() && o.ok() && len(t.items) > 0 && len(o.items) > 0 &&
			t.items[0].DescribedObject.APIVersion == "/v1" && o.items[0].DescribedObject.APIVersion == "v1"
	}},
	{"The time is the sample's", false, func(q question, t, o reply) bool {
		return !q.external && t.ok() && o.ok() && len(t.items) > 0 && len(o.items) > 0 && o.items[0].Timestamp.Before(t.items[0].Timestamp)
	}},
	{"The window is reported", false, func(q question, t, o reply) bool {
		return about(q, "http_requests_per_second", "backlog") && t.ok() && o.ok() && len(o.items) > 0 && o.items[0].WindowSeconds != nil && t.items[0].WindowSeconds == nil
	}},
}

// classify returns the listed differences between two answers. explained is true if they explain everything
// that an HPA would see.
func classify(q question, theirs, ours reply) (found []string, explained bool) {
	explained = same(q, theirs, ours)
	for _, d := range differences {
		if !d.is(q, theirs, ours) {
			continue
		}
		found = append(found, d.name)
		explained = explained || d.values
	}
	// Two errors with different codes are also a difference.
	if !theirs.ok() && !ours.ok() && theirs.code != ours.code && len(found) == 0 {
		return found, false
	}
	return found, explained
}

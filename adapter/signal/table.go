package signal

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// Forget is how long after its last sample a series counts as stale. Afterwards
// it is unknown.
const Forget = 10 * time.Minute

// Table is one rule's state of the pods of a namespace at one time. It is
// immutable once built and safe for concurrent use.
type Table struct {
	rule   Rule
	points []point // by key
	byKey  map[Key]span
	series int
	lives  func(namespace, pod string) (since time.Time, ok bool)
}

// span is a stretch of a slice.
type span struct{ first, end int }

// point is the last sample of one series.
type point struct {
	stamp
	key   Key
	value float64
	at    int64 // when the value was scraped, on this process's clock, in Unix milliseconds
	// scraped is at on the server's clock, and every the milliseconds between the last
	// scrapes that were observed; 0 for unknown.
	scraped  int64
	every    [2]int64
	why      Reason // why the value is not usable; "" if it is
	gone     bool   // missing from the last answer
	declared bool   // the value is declared by the rule, not measured
}

// stamp identifies a series of a rule's answer.
type stamp struct {
	// kind is the part that the series is: 'v', a value; 'a', the evidence for what a missing
	// one means; 'p', a later scrape, which stands for no value; 't', a time.
	kind   byte
	source uint16
	labels labels.Labels
}

// NewTable returns an empty table.
func NewTable(rule Rule) *Table { return &Table{rule: rule} }

// Rule returns the rule the table answers.
func (t *Table) Rule() Rule { return t.rule }

// Series returns the number of series in the answer the table was built from,
// usable or not.
func (t *Table) Series() int { return t.series }

// Among returns the table as seen by someone who knows which pods live and since
// when: a pod that does not live has no samples, and samples from before a pod's
// creation are those of another pod of its name.
func (t *Table) Among(lives func(namespace, pod string) (since time.Time, ok bool)) *Table {
	next := *t
	next.lives = lives
	return &next
}

// since returns when a pod was created, and false if it does not live.
func (t *Table) since(k Key) (time.Time, bool) {
	if t.lives == nil || k.Pod == "" {
		return time.Time{}, true
	}
	return t.lives(k.Namespace, k.Pod)
}

// arrange groups the points by key. It returns the number of series that a pod
// has beyond its bound.
func (t *Table) arrange() (crowded int) {
	slices.SortStableFunc(t.points, func(a, b point) int {
		return cmp.Or(strings.Compare(a.key.Namespace, b.key.Namespace), strings.Compare(a.key.Pod, b.key.Pod))
	})
	all := t.points[:0]
	t.byKey = map[Key]span{}
	for first := 0; first < len(t.points); {
		k, end := t.points[first].key, first
		for end < len(t.points) && t.points[end].key == k {
			end++
		}
		some := t.points[first:end]
		if n := kept(some); n < len(some) {
			crowded += len(some) - n
			some = some[:n]
			for i := range some {
				some[i].why = Crowded
			}
		}
		t.byKey[k] = span{len(all), len(all) + len(some)}
		all = append(all, some...)
		first = end
	}
	clear(t.points[len(all):])
	t.points = slices.Clip(all)
	return crowded
}

// kept returns how many of a pod's points are within its bounds.
func kept(points []point) (n int) {
	for bytes := uint64(0); n < min(len(points), maxPodPoints) && bytes <= maxPodBytes; n++ {
		bytes += points[n].labels.ByteSize()
	}
	return n
}

func (t *Table) of(k Key) []point {
	s := t.byKey[k]
	return t.points[s.first:s.end]
}

// Keys returns those of a namespace that have a series, in order.
func (t *Table) Keys(namespace string) []Key {
	var keys []Key
	for _, p := range t.points {
		if p.key.Namespace == namespace && (len(keys) == 0 || keys[len(keys)-1] != p.key) {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// Known is a table's state of one series, for explanations.
type Known struct {
	Source int // its place in the rule
	Labels labels.Labels
	Value  float64
	Time   time.Time // of the scrape; for an unusable value, of the answer
	// Dropped is why the value is not usable; "" if it is.
	Dropped Reason
	// Declared: the value is the rule's own for NaN, or for the want of a
	// series; in the second case Labels are those of the evidence.
	Declared bool
}

// NotSelected is why a usable value is not part of an answer to a selector. No series is
// dropped for it.
const NotSelected Reason = "not selected"

// About returns the state of a pod's series for a request's selector; k.Pod is empty for a
// rule about namespaces. A sample is stale relative to now.
func (t *Table) About(k Key, selector k8slabels.Selector, now time.Time) iter.Seq[Known] {
	return func(yield func(Known) bool) {
		for _, p := range t.of(k) {
			if p.kind == 'p' {
				continue
			}
			known := Known{Source: int(p.source), Labels: p.labels, Value: p.value, Time: time.UnixMilli(p.at), Declared: p.declared || p.kind == 'a', Dropped: p.why}
			if now.Sub(known.Time) > t.rule.limit(p.every) {
				known.Dropped = cmp.Or(p.why, Stale)
			}
			if !t.rule.selected(&p, selector) {
				known.Dropped = cmp.Or(known.Dropped, NotSelected)
			}
			if !yield(known) {
				return
			}
		}
	}
}

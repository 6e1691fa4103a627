package signal

import (
	"cmp"
	"iter"
	"maps"
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
	pods   map[Key][]point // gone points come last
	keys   []Key           // of pods, in order
	series int
	lives  func(namespace, pod string) (since time.Time, ok bool)
}

// point is the last sample of one series.
type point struct {
	stamp
	value float64
	at    int64 // when the value was scraped, on this process's clock, in Unix milliseconds
	// scraped is at on the server's clock. every has the milliseconds between the last
	// three observed scrapes, newest first; 0 is unknown.
	scraped  int64
	every    [2]int64
	why      Reason // why the value is not usable; "" if it is
	gone     bool   // missing from the last answer
	declared bool   // the value is declared by the rule, not measured
}

// stamp identifies a series of a rule's answer.
type stamp struct {
	// kind is the first letter of the series' part ([PartLabel]): 'v' for a value, 'a' for
	// evidence of what a missing series means, 'p' for proof of a later scrape, 't' for a
	// time.
	kind   byte
	source uint16
	labels labels.Labels
}

// NewTable returns an empty table.
func NewTable(rule Rule) *Table { return &Table{rule: rule, pods: map[Key][]point{}} }

// Rule returns the rule the table answers.
func (t *Table) Rule() Rule { return t.rule }

// Series returns the number of series in the answer the table was built from,
// usable or not.
func (t *Table) Series() int { return t.series }

// Among returns the table with only the pods that live; lives also returns when
// a pod was created. Samples from before that belong to an earlier pod with the
// same name and do not count.
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

// add adds a series to those of its pod.
func (t *Table) add(k Key, p point) { t.pods[k] = append(t.pods[k], p) }

// arrange sorts the keys. A pod with too many series keeps as many as the bounds allow, all of
// them unusable. arrange returns the number of series it dropped.
func (t *Table) arrange() (crowded int) {
	t.keys = slices.SortedFunc(maps.Keys(t.pods), func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
	})
	for _, k := range t.keys {
		points := t.pods[k]
		n := kept(points)
		if n == len(points) {
			continue
		}
		crowded += len(points) - n
		t.pods[k] = slices.Clone(points[:n])
		for i := range t.pods[k] {
			t.pods[k][i].why = Crowded
		}
	}
	return crowded
}

// kept returns how many of a pod's points are within its bounds.
func kept(points []point) (n int) {
	for bytes := uint64(0); n < min(len(points), maxPodPoints) && bytes <= maxPodBytes; n++ {
		bytes += points[n].labels.ByteSize()
	}
	return n
}

// Keys returns those of a namespace that have a series, in order.
func (t *Table) Keys(namespace string) (keys []Key) {
	for _, k := range t.keys {
		if k.Namespace == namespace {
			keys = append(keys, k)
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
	// Declared: the rule declares the value, for NaN or for a missing series.
	// For a missing series, Labels are those of the evidence.
	Declared bool
}

// NotSelected: the value is usable, but the request's selector does not match its
// series. No series is dropped for it.
const NotSelected Reason = "not selected"

// About returns the state of a pod's series for a request's selector; k.Pod is empty for a
// rule about namespaces. A sample is stale relative to now.
func (t *Table) About(k Key, selector k8slabels.Selector, now time.Time) iter.Seq[Known] {
	return func(yield func(Known) bool) {
		for _, p := range t.pods[k] {
			if p.kind == 'p' {
				continue
			}
			known := Known{Source: int(p.source), Labels: p.labels, Value: p.value, Time: time.UnixMilli(p.at), Declared: p.declared || p.kind == 'a', Dropped: p.why}
			if now.Sub(known.Time).Abs() > t.rule.limit(p.every) {
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

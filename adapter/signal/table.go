package signal

import (
	"iter"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Forget is how long after its last sample a series still counts as one that
// fell silent. Afterwards it is as if it had never been.
const Forget = 10 * time.Minute

// Table is what one rule knows about all pods at one moment. It is immutable
// once built and safe for concurrent use.
type Table struct {
	rule   Rule
	points []point // those of one key together
	keys   []Key   // those of one namespace together
	byKey  map[Key]span
	// byNamespace are spans of keys, for what is not asked by pod.
	byNamespace map[string]span
	series      int
}

// span is a stretch of a slice.
type span struct{ first, end uint32 }

// point is the last that is known about one series. There are a hundred
// thousand of them in a large cluster: it stays within 40 bytes.
type point struct {
	labels labels.Labels
	value  float64
	at     int64 // when the value was scraped, on this process's clock, in Unix milliseconds
	source uint16
	why    uint8 // why the value is nothing to go by: a place in Reasons, from 1; 0 if it is usable
	marks  uint8
}

// What is special about a point.
const (
	gone     uint8 = 1 << iota // the last answer had it no more
	evidence                   // no series of the source's own: what shows that the want of one means something
	declared                   // the value is the rule's, not measured
)

func (p *point) is(mark uint8) bool { return p.marks&mark != 0 }

// NewTable returns a table that knows nothing.
func NewTable(rule Rule) *Table { return &Table{rule: rule} }

// Rule returns the rule the table answers.
func (t *Table) Rule() Rule { return t.rule }

// Series returns the number of series in the answer the table was built from,
// usable or not.
func (t *Table) Series() int { return t.series }

func (t *Table) of(k Key) []point {
	s := t.byKey[k]
	return t.points[s.first:s.end]
}

func (t *Table) in(namespace string) []Key {
	s := t.byNamespace[namespace]
	return t.keys[s.first:s.end]
}

// Known is what a table knows about one series, for those who explain answers.
type Known struct {
	Metric string // the source's
	Server string
	Labels labels.Labels
	Value  float64
	Time   time.Time // of the scrape; for an unusable value of the answer
	// Dropped says why the value is not used; "" if it could be.
	Dropped Reason
	// Gone: the last answer had the series no more.
	Gone bool
	// Declared: the value is the rule's own for NaN, or for the want of a
	// series; in the second case Labels are those of the evidence.
	Declared bool
}

// About returns everything known about a pod; for a rule about namespaces with
// an empty pod. now decides what is stale.
func (t *Table) About(k Key, now time.Time) iter.Seq[Known] {
	return func(yield func(Known) bool) {
		for _, p := range t.of(k) {
			s := &t.rule.Sources[p.source]
			known := Known{
				Metric: s.Metric, Server: s.Server, Labels: p.labels, Value: p.value, Time: time.UnixMilli(p.at),
				Gone: p.is(gone), Declared: p.is(declared) || p.is(evidence),
			}
			switch {
			case p.why > 0:
				known.Dropped = Reasons()[p.why-1]
			case now.Sub(known.Time) > t.rule.MaxAge:
				known.Dropped = Stale
			}
			if !yield(known) {
				return
			}
		}
	}
}

// Known returns the keys of a namespace's pods that anything is known about.
func (t *Table) Known(namespace string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for _, k := range t.in(namespace) {
			if !yield(k) {
				return
			}
		}
	}
}

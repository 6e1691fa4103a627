package signal

import (
	"iter"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Forget is how long after its last sample a series counts as stale. Afterwards
// it is unknown.
const Forget = 10 * time.Minute

// Table is one rule's state of all pods at one time. It is immutable once built
// and safe for concurrent use.
type Table struct {
	rule   Rule
	points []point // grouped by key
	keys   []Key   // grouped by namespace
	byKey  map[Key]span
	// byNamespace are spans of keys, for requests not by pod.
	byNamespace map[string]span
	series      int
}

// span is a stretch of a slice.
type span struct{ first, end uint32 }

// point is the last sample of one series. A large cluster has a hundred
// thousand of them: it stays within 40 bytes.
type point struct {
	labels labels.Labels
	value  float64
	at     int64 // when the value was scraped, on this process's clock, in Unix milliseconds
	source uint16
	why    uint8 // why the value is not usable: an index into Reasons, from 1; 0 if it is
	marks  uint8
}

// Marks of a point.
const (
	gone     uint8 = 1 << iota // missing from the last answer
	evidence                   // not the source's own series, but the evidence for what a missing one means
	declared                   // the value is declared by the rule, not measured
)

func (p *point) is(mark uint8) bool { return p.marks&mark != 0 }

// NewTable returns an empty table.
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

// Known is a table's state of one series, for explanations.
type Known struct {
	Metric string // the source's
	Server string
	Labels labels.Labels
	Value  float64
	Time   time.Time // of the scrape; for an unusable value, of the answer
	// Dropped is why the value is not usable; "" if it is.
	Dropped Reason
	// Gone: the series is missing from the last answer.
	Gone bool
	// Declared: the value is the rule's own for NaN, or for the want of a
	// series; in the second case Labels are those of the evidence.
	Declared bool
}

// About returns the state of a pod's series; k.Pod is empty for a rule about
// namespaces. A sample is stale relative to now.
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

// Known returns the keys of a namespace's pods that have a series.
func (t *Table) Known(namespace string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for _, k := range t.in(namespace) {
			if !yield(k) {
				return
			}
		}
	}
}

package prom

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Label is one name and value of a series.
type Label struct{ Name, Value string }

// Labels is a series' label set, sorted by name, without empty values.
type Labels []Label

// FromMap returns the label set of m.
func FromMap(m map[string]string) Labels {
	ls := make(Labels, 0, len(m))
	for name, value := range m {
		if value != "" {
			ls = append(ls, Label{name, value})
		}
	}
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return ls
}

// Get returns the value of a label; "" where the series has none, as in PromQL.
func (ls Labels) Get(name string) string {
	for _, l := range ls {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// Sample is one element of an instant vector.
type Sample struct {
	Labels Labels
	// Value may be NaN or infinite: the caller decides.
	Value float64
	// Time is the evaluation time as the server stated it, NOT the time the
	// value was scraped. PromQL's timestamp(selector) returns the scrape time,
	// in Unix seconds, as Value.
	Time time.Time
}

// Vector is an instant vector, in the server's order.
type Vector []Sample

// All yields the labels' names and values in order of name.
func (ls Labels) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, l := range ls {
			if !yield(l.Name, l.Value) {
				return
			}
		}
	}
}

// vectorBuilder builds a vector. Label names and values repeat, so each text is
// stored once.
type vectorBuilder struct {
	vector Vector
	seen   map[string]string
	block  []Label // labels are allocated in blocks
}

const labelBlock = 4096

func (b *vectorBuilder) add(e element) {
	if cap(b.block)-len(b.block) < len(e.labels) {
		b.block = make([]Label, 0, max(labelBlock, len(e.labels)))
	}
	begin := len(b.block)
	for _, pair := range e.labels {
		b.block = append(b.block, Label{b.text(pair[0]), b.text(pair[1])})
	}
	// Capacity equal to length, so that an append copies and does not overwrite
	// the next sample's labels.
	ls := b.block[begin:len(b.block):len(b.block)]
	b.vector = append(b.vector, Sample{Labels: Labels(ls), Value: e.value, Time: e.at})
}

func (b *vectorBuilder) text(raw []byte) string {
	if s, ok := b.seen[string(raw)]; ok {
		return s
	}
	if b.seen == nil {
		b.seen = map[string]string{}
	}
	s := string(raw)
	b.seen[s] = s
	return s
}

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
	// Value may be NaN or infinite: whoever asked must judge.
	Value float64
	// Time is the evaluation time as the server stated it, NOT the time the
	// value was scraped. Who needs the age asks for PromQL's
	// timestamp(selector), whose Value is the scrape time in Unix seconds.
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

// vectorBuilder keeps the elements of an answer. Label names and values
// repeat, so each text is there once.
type vectorBuilder struct {
	vector Vector
	seen   map[string]string
	room   []Label // where labels go, in blocks
}

const labelBlock = 4096

func (b *vectorBuilder) add(e element) {
	if cap(b.room)-len(b.room) < len(e.labels) {
		b.room = make([]Label, 0, max(labelBlock, len(e.labels)))
	}
	begin := len(b.room)
	for _, pair := range e.labels {
		b.room = append(b.room, Label{b.text(pair[0]), b.text(pair[1])})
	}
	// Of its own length, so that nobody's append runs into the next sample's.
	ls := b.room[begin:len(b.room):len(b.room)]
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

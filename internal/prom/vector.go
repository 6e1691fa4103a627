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

// Line is the values of one series over time.
type Line struct {
	Labels Labels
	Points []Point // ascending in time, with gaps where there is no value
}

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

package memstore

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Finder returns the series that match. From and to are in milliseconds, both ends
// included; points outside them are never read.
type Finder func(from, to int64, matchers []*labels.Matcher) []storage.Series

// Querier returns a storage.Querier of find's series between two times, in
// milliseconds.
func Querier(from, to int64, find Finder) storage.Querier {
	return querier{from, to, find}
}

// Matches reports whether a series matches all matchers.
func Matches(ls labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(ls.Get(m.Name)) {
			return false
		}
	}
	return true
}

// MatchesName reports whether a series of this name can match all matchers.
func MatchesName(name string, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if m.Name == labels.MetricName && !m.Matches(name) {
			return false
		}
	}
	return true
}

type querier struct {
	from, to int64
	find     Finder
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	from, to := q.from, q.to
	if hints != nil {
		from, to = hints.Start, hints.End
	}
	found := q.find(from, to, matchers)
	if sorted {
		slices.SortStableFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return &seriesSet{found: found}
}

// LabelValues implements storage.Querier.
func (q querier) LabelValues(_ context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values := map[string]bool{}
	for _, s := range q.find(q.from, q.to, matchers) {
		if v := s.Labels().Get(name); v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values)), nil, nil
}

// LabelNames implements storage.Querier.
func (q querier) LabelNames(_ context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names := map[string]bool{}
	for _, s := range q.find(q.from, q.to, matchers) {
		s.Labels().Range(func(l labels.Label) { names[l.Name] = true })
	}
	return slices.Sorted(maps.Keys(names)), nil, nil
}

// Close implements storage.Querier.
func (querier) Close() error { return nil }

type seriesSet struct {
	found []storage.Series
	next  int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next <= len(s.found) }
func (s *seriesSet) At() storage.Series              { return s.found[s.next-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

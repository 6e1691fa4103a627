package states

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gpuscale/gpuscale/dashboards/rules"
)

// series is one series with its values in order of time.
type series struct {
	labels labels.Labels
	points []chunks.Sample
}

// set is the series of one Prometheus. Once recorded it does not change.
type set struct{ byName map[string][]*series }

func newSet() *set { return &set{byName: map[string][]*series{}} }

func (s *set) add(ls labels.Labels) *series {
	one := &series{labels: ls}
	name := ls.Get(labels.MetricName)
	for _, there := range s.byName[name] { // of a target that was gone and is back
		if labels.Equal(there.labels, ls) {
			return there
		}
	}
	s.byName[name] = append(s.byName[name], one)
	return one
}

// add appends a value. A second one of the same moment is the scrape's, since
// staleness is marked first.
func (s *series) add(ms int64, v float64) {
	if n := len(s.points); n > 0 && s.points[n-1].T() == ms {
		s.points[n-1] = point{ms, v}
		return
	}
	s.points = append(s.points, point{ms, v})
}

// view is a set without some families.
type view struct {
	*set
	without []string
	rules   *ruled // what rules make of it; nil for none
}

// hidden reports whether a series of this name is of a family left out.
func (v view) hidden(name string) bool {
	return slices.Contains(v.without, name) || slices.Contains(v.without, familyOf(v.set, name))
}

// familyOf is the family of a series' name: that of a histogram has a bucket.
func familyOf(s *set, name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, ok := strings.CutSuffix(name, suffix); ok && s.byName[family+"_bucket"] != nil {
			return family
		}
	}
	return name
}

// Querier implements storage.Queryable.
func (v view) Querier(_, _ int64) (storage.Querier, error) { return querier{v}, nil }

type querier struct{ view view }

// selected are the series that match, by name and then in order of recording.
func (q querier) selected(matchers []*labels.Matcher) []*series {
	var out []*series
	for _, name := range q.names(matchers) {
		if q.view.hidden(name) || slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(name) }) {
			continue
		}
		all := q.view.byName[name]
		if all == nil && q.view.rules != nil {
			all = q.view.rules.of(name, q.view)
		}
		for _, s := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
				out = append(out, s)
			}
		}
	}
	return out
}

// names that may match, sorted: one, where the matchers say which.
func (q querier) names(matchers []*labels.Matcher) []string {
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return []string{m.Value}
		}
	}
	names := slices.Collect(maps.Keys(q.view.byName))
	if q.view.rules != nil {
		for _, r := range rules.All() {
			names = append(names, r.Record)
		}
	}
	slices.Sort(names)
	return names
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := q.selected(matchers)
	if sorted {
		slices.SortFunc(found, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	}
	return &result{found: found}
}

// LabelValues implements storage.Querier.
func (q querier) LabelValues(_ context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values := map[string]bool{}
	for _, s := range q.selected(matchers) {
		if v := s.labels.Get(name); v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values)), nil, nil
}

// LabelNames implements storage.Querier.
func (q querier) LabelNames(_ context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names := map[string]bool{}
	for _, s := range q.selected(matchers) {
		s.labels.Range(func(l labels.Label) { names[l.Name] = true })
	}
	return slices.Sorted(maps.Keys(names)), nil, nil
}

// Close implements storage.Querier.
func (querier) Close() error { return nil }

// result is a storage.SeriesSet.
type result struct {
	found []*series
	next  int
}

func (r *result) Next() bool { r.next++; return r.next <= len(r.found) }
func (r *result) At() storage.Series {
	s := r.found[r.next-1]
	return storage.NewListSeries(s.labels, s.points)
}
func (*result) Err() error                        { return nil }
func (*result) Warnings() annotations.Annotations { return nil }

// point is a value that is no histogram.
type point struct {
	ms    int64
	value float64
}

func (p point) T() int64                    { return p.ms }
func (point) ST() int64                     { return 0 }
func (p point) F() float64                  { return p.value }
func (point) H() *histogram.Histogram       { return nil }
func (point) FH() *histogram.FloatHistogram { return nil }
func (point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample         { return p }

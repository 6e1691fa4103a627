package memstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// Series is a storage of a few series, found in their order in the slice.
type Series []storage.Series

// Querier implements storage.Queryable.
func (s Series) Querier(from, to int64) (storage.Querier, error) {
	return Querier(from, to, func(_, _ int64, matchers []*labels.Matcher) []storage.Series {
		var found []storage.Series
		for _, one := range s {
			if Matches(one.Labels(), matchers) {
				found = append(found, one)
			}
		}
		return found
	}), nil
}

// Clock is when the values of a line were scraped: the time of the ith of n.
type Clock func(i, n int) time.Time

// From is a clock of lines that begin together, a value each step.
func From(first time.Time, step time.Duration) Clock {
	return func(i, _ int) time.Time { return first.Add(time.Duration(i) * step) }
}

// Until is a clock of lines that end together, a value each step.
func Until(last time.Time, step time.Duration) Clock {
	return func(i, n int) time.Time { return last.Add(time.Duration(i+1-n) * step) }
}

// Read reads series in promtool's notation, one a line; empty lines are ignored.
// "_" is a scrape without a value and "stale" the end of a series.
func Read(text string, clock Clock) (Series, error) {
	var all Series
	notation := parser.NewParser(parser.Options{})
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		ls, values, err := notation.ParseSeriesDesc(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		var points []chunks.Sample
		for i, v := range values {
			at := clock(i, len(values)).UnixMilli()
			switch {
			case v.Omitted:
			case v.Histogram != nil:
				points = append(points, Histogram{at, v.Histogram})
			default:
				points = append(points, Float{at, v.Value})
			}
		}
		all = append(all, storage.NewListSeries(ls, points))
	}
	return all, nil
}

// Float is a value at a time in milliseconds.
type Float struct {
	Milli int64
	Value float64
}

// At is a value at a time.
func At(t time.Time, value float64) Float { return Float{t.UnixMilli(), value} }

// T implements chunks.Sample, like the following methods.
func (f Float) T() int64                    { return f.Milli }
func (Float) ST() int64                     { return 0 }
func (f Float) F() float64                  { return f.Value }
func (Float) H() *histogram.Histogram       { return nil }
func (Float) FH() *histogram.FloatHistogram { return nil }
func (Float) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (f Float) Copy() chunks.Sample         { return f }

// Histogram is a native histogram at a time in milliseconds.
type Histogram struct {
	Milli int64
	Value *histogram.FloatHistogram
}

// T implements chunks.Sample, like the following methods. They return copies,
// since the engine computes in place.
func (h Histogram) T() int64                      { return h.Milli }
func (Histogram) ST() int64                       { return 0 }
func (Histogram) F() float64                      { return 0 }
func (Histogram) H() *histogram.Histogram         { return nil }
func (h Histogram) FH() *histogram.FloatHistogram { return h.Value.Copy() }
func (Histogram) Type() chunkenc.ValueType        { return chunkenc.ValFloatHistogram }
func (h Histogram) Copy() chunks.Sample           { return h }

package memstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// Series is a storage of a few series, found in their order in the slice.
type Series []storage.Series

// Querier implements storage.Queryable.
func (s Series) Querier(from, to int64) (storage.Querier, error) {
	return Querier(from, to, func(_, _ int64, matchers []*labels.Matcher) []storage.Series {
		return slices.DeleteFunc(slices.Clone(s), func(one storage.Series) bool { return !Matches(one.Labels(), matchers) })
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
		one := promql.Series{Metric: ls}
		for i, v := range values {
			at := clock(i, len(values)).UnixMilli()
			switch {
			case v.Omitted:
			case v.Histogram != nil:
				one.Histograms = append(one.Histograms, promql.HPoint{T: at, H: v.Histogram})
			default:
				one.Floats = append(one.Floats, promql.FPoint{T: at, F: v.Value})
			}
		}
		all = append(all, promql.NewStorageSeries(one))
	}
	return all, nil
}

// At is a value at a time.
func At(t time.Time, value float64) promql.FPoint { return promql.FPoint{T: t.UnixMilli(), F: value} }

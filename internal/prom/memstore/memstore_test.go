package memstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

const step = 15 * time.Second

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Series of any length end at the same time by the given clock.
func TestUntil(t *testing.T) {
	series, err := memstore.Read("a 1 2 3\nb 4", memstore.Until(noon, step))
	require.NoError(t, err)
	var got []string
	for _, s := range series {
		for it := s.Iterator(nil); it.Next() != chunkenc.ValNone; {
			at, v := it.At()
			got = append(got, fmt.Sprintf("%s %s %v", s.Labels().Get(labels.MetricName), noon.Sub(time.UnixMilli(at)), v))
		}
	}
	if want := []string{"a 30s 1", "a 15s 2", "a 0s 3", "b 0s 4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A Querier answers as Prometheus' storage does: sorted on request, within the hints' times.
func TestQuerier(t *testing.T) {
	var asked []int64
	all := []storage.Series{
		promql.NewStorageSeries(promql.Series{Metric: labels.FromStrings("__name__", "up", "job", "b")}),
		promql.NewStorageSeries(promql.Series{Metric: labels.FromStrings("__name__", "up", "job", "a", "pod", "p")}),
	}
	q := memstore.Querier(3, 9, func(from, to int64, matchers []*labels.Matcher) []storage.Series {
		asked = []int64{from, to}
		return slices.DeleteFunc(slices.Clone(all), func(s storage.Series) bool { return !memstore.Matches(s.Labels(), matchers) })
	})
	jobs := func(set storage.SeriesSet) (out string) {
		for set.Next() {
			out += set.At().Labels().Get("job")
		}
		return out
	}
	up := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, "up")
	if got := jobs(q.Select(t.Context(), false, nil, up)); got != "ba" || !slices.Equal(asked, []int64{3, 9}) {
		t.Errorf("%s within %v", got, asked)
	}
	if got := jobs(q.Select(t.Context(), true, &storage.SelectHints{Start: 4, End: 5}, up)); got != "ab" || !slices.Equal(asked, []int64{4, 5}) {
		t.Errorf("sorted: %s within %v", got, asked)
	}
	with := labels.MustNewMatcher(labels.MatchEqual, "pod", "p")
	if got := jobs(q.Select(t.Context(), false, nil, with)); got != "a" {
		t.Errorf("of pod p: %s", got)
	}
	if !memstore.MatchesName("up", []*labels.Matcher{with, up}) || memstore.MatchesName("down", []*labels.Matcher{with, up}) {
		t.Error("a name is judged by its own matchers, and by those alone")
	}
}

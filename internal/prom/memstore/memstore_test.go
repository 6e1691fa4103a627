package memstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

const step = 15 * time.Second

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The engine answers over the notation as Prometheus does over what it has scraped.
func TestInstant(t *testing.T) {
	series, err := memstore.Read(`
		up{job="b"} 1 1 0 _ _
		up{job="a"} 1 1 1 1 stale

		seen{job="a"} 0+3x4
		wait{job="a"} {{schema:0 count:4 sum:24 offset:3 buckets:[4]}}x4`, memstore.From(noon, step))
	if err != nil {
		t.Fatal(err)
	}
	engine := memstore.NewEngine(nil)
	for _, c := range []struct {
		query string
		after time.Duration
		want  string // the labels and values, or a part of the error
	}{
		{`up`, 2 * step, `{__name__="up", job="b"} 0; {__name__="up", job="a"} 1`},
		{`up`, 4 * step, `{__name__="up", job="b"} 0`}, // the other has ended; this one is looked back for
		{`up`, 8 * time.Minute, ``},
		{`up{job!="b"}`, step, `{__name__="up", job="a"} 1`},
		{`increase(seen[1m])`, 4 * step, `{job="a"} 12`},
		{`seen @ 1767268830`, 4 * step, `{__name__="seen", job="a"} 6`},
		{`seen offset -15s`, step, `{__name__="seen", job="a"} 6`},
		{`histogram_avg(wait)`, step, `{job="a"} 6`},
		{`up +`, 0, `parse error`},
		{`up[1m]`, 0, `not a Vector`},
	} {
		vector, _, err := memstore.Instant(t.Context(), engine, series, c.query, noon.Add(c.after))
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.query, err, c.want)
			}
			continue
		}
		var got []string
		for _, s := range memstore.Samples(vector, noon.Add(c.after)) {
			if !s.Time.Equal(noon.Add(c.after)) {
				t.Errorf("%s: its time is %s", c.query, s.Time)
			}
		}
		for _, s := range vector {
			got = append(got, fmt.Sprintf("%s %v", s.Metric, s.F))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.query, text, c.want)
		}
	}
}

// A warning of the engine is told: an answer with one may be a partial one.
func TestWarnings(t *testing.T) {
	series, err := memstore.Read(`wait_bucket{le="one"} 1x4`, memstore.From(noon, step))
	if err != nil {
		t.Fatal(err)
	}
	vector, warnings, err := memstore.Instant(t.Context(), memstore.NewEngine(nil), series, `histogram_quantile(0.5, wait_bucket)`, noon)
	if err != nil || len(vector) != 0 || len(warnings) != 1 {
		t.Errorf("%v, warnings %v, %v", vector, warnings, err)
	}
}

// Lines of any length end together by the clock that says so.
func TestUntil(t *testing.T) {
	series, err := memstore.Read("a 1 2 3\nb 4", memstore.Until(noon, step))
	if err != nil {
		t.Fatal(err)
	}
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

func TestReadRefuses(t *testing.T) {
	if _, err := memstore.Read("a 1\nb{ 2", memstore.From(noon, step)); err == nil || !strings.Contains(err.Error(), "b{ 2") {
		t.Errorf("%v, want the line named", err)
	}
}

// A Querier answers what Prometheus's storage does: sorted when asked, within the
// hints' times, and the names and values of labels too.
func TestQuerier(t *testing.T) {
	var asked []int64
	all := []storage.Series{
		storage.NewListSeries(labels.FromStrings("__name__", "up", "job", "b"), []chunks.Sample{memstore.At(noon, 1)}),
		storage.NewListSeries(labels.FromStrings("__name__", "up", "job", "a", "pod", "p"), []chunks.Sample{memstore.At(noon, 1)}),
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
	values, _, _ := q.LabelValues(t.Context(), "job", nil, up)
	names, _, _ := q.LabelNames(t.Context(), nil, up)
	if fmt.Sprint(values, names) != "[a b] [__name__ job pod]" {
		t.Errorf("values %q, names %q", values, names)
	}
	if !memstore.MatchesName("up", []*labels.Matcher{with, up}) || memstore.MatchesName("down", []*labels.Matcher{with, up}) {
		t.Error("a name is judged by its own matchers, and by those alone")
	}
}

// The engine computes in place, so nobody is given a histogram's own numbers.
func TestHistogramIsNotChanged(t *testing.T) {
	h := memstore.Histogram{Value: &histogram.FloatHistogram{Count: 4}}
	if h.FH().Mul(2); h.Value.Count != 4 {
		t.Errorf("its count is %v after somebody computed with it", h.Value.Count)
	}
}

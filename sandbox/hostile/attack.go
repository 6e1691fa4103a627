package hostile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// Attack is one kind of hostile metrics page.
type Attack struct {
	Name string
	Each int // series for each name and target
	// First marks the attacks that find most faults.
	First bool

	names  func(Family) []string
	labels func(w *World, f Family, name string, i int) labels.Labels
	points func(w *World, f Family) promql.Series
}

// Attacks returns all attacks. Those that attack by size have many series of each name.
func Attacks(many int) []Attack {
	return []Attack{
		{"imitation with zero", 6, false, Family.Series, imitation, constant(0)},
		{"imitation with a large value", 6, true, Family.Series, imitation, constant(1e18)},
		{"imitation that is not finite", 3, false, Family.Series, imitation, alternating(math.NaN(), math.Inf(1), math.Inf(-1))},
		{"imitation of growth and resets", 3, false, Family.Series, imitation, alternating(1e9, 0)},
		{"imitation between scrapes and in the future", 3, false, Family.Series, imitation, between},
		{"exported labels", 3, false, Family.Series, exportedLabels, constant(0)},
		{"many series", many, true, Family.Series, fresh, constant(1)},
		{"many and long labels", 2, false, Family.Series, longLabels, constant(1)},
		{"native histograms", 3, false, Family.Series, imitation, native},
		{"native histograms among numbers", 3, true, Family.Series, imitation, mixed},
		{"broken buckets", 6, false, everySuffix, buckets, alternating(5, 1, math.NaN())},
	}
}

// imitation returns the labels of an honest series; if there is none, honest values for its labels.
func imitation(w *World, f Family, name string, i int) labels.Labels {
	if there := w.series[name]; i < len(there) {
		return there[i]
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, l := range f.Labels {
		if values := w.values[l]; len(values) > 0 {
			b.Set(l, values[i%len(values)])
		} else {
			b.Set(l, "x")
		}
	}
	if strings.HasSuffix(name, "_bucket") {
		b.Set("le", "+Inf")
	}
	return b.Labels()
}

// exportedLabels names our namespace and pods in the labels to which Prometheus moves a page's own labels.
func exportedLabels(w *World, f Family, name string, i int) labels.Labels {
	b := labels.NewBuilder(imitation(w, f, name, i))
	for _, l := range []string{"namespace", "pod", "container"} {
		if own := b.Get(l); own != "" {
			b.Set("exported_"+l, own)
		}
		b.Del(l)
	}
	return b.Set("exported_job", "gpuscale-exporter").Set("exported_instance", "gpuscale-exporter-n1:9400").Labels()
}

// fresh returns label values that no other series has.
func fresh(w *World, f Family, name string, i int) labels.Labels {
	b := labels.NewBuilder(imitation(w, f, name, i%3))
	b.Range(func(l labels.Label) {
		if l.Name != "le" && i%2 == 0 {
			b.Set(l.Name, fmt.Sprintf("%s-%d", l.Name, i))
		}
	})
	return b.Set("forged", fmt.Sprint(i)).Labels()
}

// longLabels returns hundreds of labels, long values, and names that are not ASCII.
func longLabels(w *World, f Family, name string, i int) labels.Labels {
	b := labels.NewBuilder(imitation(w, f, name, i))
	for n := range 100 {
		b.Set(fmt.Sprintf("l%d", n), strings.Repeat("v", 100))
	}
	return b.Set("long", strings.Repeat("é", 20_000)).Set("größe.in{}", `"\`+"\n").Labels()
}

// buckets returns bucket bounds that are missing or not numbers; the last one, +Inf, is always missing.
func buckets(w *World, f Family, name string, i int) labels.Labels {
	bounds := []string{"", "x", "NaN", "-Inf", "1", "1e400"}
	return labels.NewBuilder(imitation(w, f, name, i)).Set("le", bounds[i%len(bounds)]).Set("quantile", "0.5").Labels()
}

// everySuffix gives every family the series names of a histogram.
func everySuffix(f Family) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(f.Series(), f.Name+"_bucket", f.Name+"_sum", f.Name+"_count"))))
}

// constant returns a constant value; for a counter, a growing one.
func constant(v float64) func(*World, Family) promql.Series {
	return func(w *World, f Family) promql.Series {
		return w.over(func(to *promql.Series, i int, at time.Time) {
			value := v
			if f.Type != metric.Gauge {
				value *= float64(i)
			}
			to.Floats = append(to.Floats, memstore.At(at, value))
		})
	}
}

func alternating(values ...float64) func(*World, Family) promql.Series {
	return func(w *World, _ Family) promql.Series {
		return w.over(func(to *promql.Series, i int, at time.Time) {
			to.Floats = append(to.Floats, memstore.At(at, values[i%len(values)]))
		})
	}
}

// between returns samples with the page's own timestamps: ten seconds after each scrape, and an hour ahead.
func between(w *World, _ Family) promql.Series {
	s := w.over(func(to *promql.Series, _ int, at time.Time) {
		to.Floats = append(to.Floats, memstore.At(at.Add(10*time.Second), 3))
	})
	s.Floats = append(s.Floats, memstore.At(w.To.Add(time.Hour), 7))
	return s
}

func native(w *World, _ Family) promql.Series {
	return w.over(func(to *promql.Series, i int, at time.Time) {
		to.Histograms = append(to.Histograms, promql.HPoint{T: at.UnixMilli(), H: wide(i)})
	})
}

func mixed(w *World, _ Family) promql.Series {
	return w.over(func(to *promql.Series, i int, at time.Time) {
		if i%2 == 0 {
			to.Floats = append(to.Floats, memstore.At(at, 1))
		} else {
			to.Histograms = append(to.Histograms, promql.HPoint{T: at.UnixMilli(), H: wide(i)})
		}
	})
}

// wide returns a native histogram with 1,000 buckets.
func wide(i int) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Schema: 3, Count: 1000, Sum: float64(i), PositiveSpans: []histogram.Span{{Length: 1000}}}
	for range 1000 {
		h.PositiveBuckets = append(h.PositiveBuckets, 1)
	}
	return h
}

package states

import (
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// recording is what two Prometheuses hold of the same targets: one scrapes with
// honor_labels, the other without.
type recording struct {
	honored, plain memstore.DB
	ruled          ruled
}

// scrape stores a target's exposition at a time, nil for a target that did not answer.
func (r *recording) scrape(at time.Time, target labels.Labels, page []*dto.MetricFamily) {
	exposed := values(page)
	up := 0.0
	if page != nil {
		up = 1
	}
	n := float64(len(exposed))
	exposed = append(exposed, value("up", "", nil, up), value("scrape_samples_scraped", "", nil, n))
	r.record(at, target, exposed)
}

// gone is for a target that service discovery no longer lists.
func (r *recording) gone(at time.Time, target labels.Labels) { r.record(at, target, nil) }

func (r *recording) record(at time.Time, target labels.Labels, exposed []memstore.Exposed) {
	r.honored.Scrape(at, target, true, exposed)
	r.plain.Scrape(at, target, false, exposed)
}

// values are all values of a page, a histogram's as the text format has them.
func values(page []*dto.MetricFamily) []memstore.Exposed {
	var all []memstore.Exposed
	for _, f := range page {
		for _, m := range f.GetMetric() {
			put := func(suffix, le string, v float64) {
				all = append(all, value(f.GetName()+suffix, le, m.GetLabel(), v))
			}
			switch {
			case m.Gauge != nil:
				put("", "", m.Gauge.GetValue())
			case m.Counter != nil:
				put("", "", m.Counter.GetValue())
			case m.Untyped != nil:
				put("", "", m.Untyped.GetValue())
			case m.Histogram != nil:
				h := m.Histogram
				for _, b := range h.GetBucket() {
					if !math.IsInf(b.GetUpperBound(), 1) {
						put("_bucket", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), float64(b.GetCumulativeCount()))
					}
				}
				put("_bucket", "+Inf", float64(h.GetSampleCount()))
				put("_sum", "", h.GetSampleSum())
				put("_count", "", float64(h.GetSampleCount()))
			}
		}
	}
	return all
}

func value(name, le string, of []*dto.LabelPair, v float64) memstore.Exposed {
	b := labels.NewScratchBuilder(len(of) + 2)
	b.Add(labels.MetricName, name)
	if le != "" {
		b.Add("le", le)
	}
	for _, l := range of {
		b.Add(l.GetName(), l.GetValue())
	}
	b.Sort()
	return memstore.Exposed{Labels: b.Labels(), Value: v}
}

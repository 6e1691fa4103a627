package states

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
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
	for name, v := range map[string]float64{"up": up, "scrape_samples_scraped": n} {
		exposed = append(exposed, memstore.Exposed{Labels: labels.FromStrings(labels.MetricName, name), Value: v})
	}
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
	samples, _ := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, page...) // it fails for unknown types
	var all []memstore.Exposed
	for _, s := range samples {
		b := labels.NewScratchBuilder(len(s.Metric))
		for name, v := range s.Metric {
			b.Add(string(name), string(v))
		}
		b.Sort()
		all = append(all, memstore.Exposed{Labels: b.Labels(), Value: float64(s.Value)})
	}
	return all
}

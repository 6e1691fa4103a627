package states

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// recording is what two Prometheus servers store of the same targets: one scrapes with honor_labels, the other without.
type recording struct {
	honored, plain memstore.DB
	ruled          ruled
}

// scrape stores a target's page at a time, nil for a target that did not answer.
func (r *recording) scrape(at time.Time, target labels.Labels, page []memstore.Exposed) {
	up := 0.0
	if page != nil {
		up = 1
	}
	own := func(name string, v float64) memstore.Exposed {
		return memstore.Exposed{Labels: labels.FromStrings(labels.MetricName, name), Value: v}
	}
	r.record(at, target, append(page, own("up", up), own("scrape_samples_scraped", float64(len(page)))))
}

// gone ends the series of a target that service discovery no longer lists.
func (r *recording) gone(at time.Time, target labels.Labels) { r.record(at, target, nil) }

func (r *recording) record(at time.Time, target labels.Labels, exposed []memstore.Exposed) {
	r.honored.Scrape(at, target, true, exposed)
	r.plain.Scrape(at, target, false, exposed)
}

// known are the labels of series that were parsed before, by the series' text.
var known sync.Map

// parse reads an exposition without timestamps. Only its values change from scrape to scrape,
// so each series is parsed once.
func parse(page []byte) ([]memstore.Exposed, error) {
	all := []memstore.Exposed{}
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := max(strings.LastIndexByte(line, ' '), 0)
		series, found := known.Load(line[:at])
		if !found {
			parsed, err := parser.NewParser(parser.Options{}).ParseMetric(line[:at])
			if err != nil {
				return nil, fmt.Errorf("parsing an exposition: %s: %w", line, err)
			}
			series = parsed
			known.Store(strings.Clone(line[:at]), series)
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("parsing an exposition: %s: %w", line, err)
		}
		all = append(all, memstore.Exposed{Labels: series.(labels.Labels), Value: v})
	}
	return all, nil
}

// gather is a registry's page.
func gather(registry prometheus.Gatherer) ([]memstore.Exposed, error) {
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			return nil, err
		}
	}
	return parse(page.Bytes())
}

package states

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// measured are the families of durations by this machine's clock, and the seconds that
// replace them: a fake clock. Series and counts stay the program's own.
// TestRecordedAgainItIsTheSame finds what is missing.
var measured = map[string]float64{
	metric.ExporterReadSeconds.Name:   0.004,
	metric.ExporterScrapeSeconds.Name: 0.0007,
	metric.AdapterQuerySeconds.Name:   0.02,
	metric.AdapterRuleAge.Name:        2,
}

// moments are the families that are a time of day of this machine's clock.
var moments = []string{metric.ExporterReloadSuccessTime.Name, metric.AdapterReloadTime.Name}

// steadied replaces measured durations by their fakes. A value of 0 stays: nothing was
// measured. It changes its argument, a page in the order of the text format, which has the
// count of a histogram last.
func steadied(page []memstore.Exposed) []memstore.Exposed {
	count := 0.0 // of the histogram at hand
	for i := range slices.Backward(page) {
		e := &page[i]
		name := nameOf(*e)
		if seconds, ok := measured[name]; ok && e.Value != 0 {
			e.Value = seconds
		}
		if slices.Contains(moments, name) && e.Value != 0 {
			e.Value = float64(begin.Add(-time.Hour).Unix())
		}
		switch seconds, part, _ := histogram(name); part {
		case "_count":
			count = e.Value
		case "_sum":
			e.Value = seconds * count
		case "_bucket":
			bound, _ := strconv.ParseFloat(e.Labels.Get(labels.BucketLabel), 64) // the program's own
			if e.Value = 0; seconds <= bound {
				e.Value = count
			}
		}
	}
	return page
}

// histogram reports whether a series is a part of a measured one: its seconds, and which part.
func histogram(name string) (seconds float64, part string, is bool) {
	at := max(strings.LastIndexByte(name, '_'), 0)
	if seconds, is = measured[name[:at]]; !is {
		return 0, "", false
	}
	return seconds, name[at:], true
}

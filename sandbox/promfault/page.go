package promfault

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
)

// Samples is the way in which a page changes its samples. The zero value changes nothing.
type Samples string

// Faults of samples. "Half" means every second sample of a group. A group has the samples of one name and
// namespace, ordered by labels.
const (
	True        Samples = ""
	NaN         Samples = "NaN"
	HalfNaN     Samples = "half NaN"
	Infinite    Samples = "+Inf"
	Negative    Samples = "negative" // the value with its sign changed
	MinusInf    Samples = "-Inf"
	Huge        Samples = "1e300"
	Doubled     Samples = "doubled"      // each sample twice, as from a second replica
	DoubledZero Samples = "doubled zero" // each sample twice, the second one with value 0
	LabelLost   Samples = "label lost"   // without the label "pod"
	HalfGone    Samples = "half gone"
	Gone        Samples = "gone"
)

// Sample is one line of a page.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

func (s Sample) with(label, value string) Sample {
	s.Labels = maps.Clone(s.Labels)
	s.Labels[label] = value
	return s
}

func (s Sample) line() string {
	m := model.Metric{model.MetricNameLabel: model.LabelValue(s.Name)}
	for name, value := range s.Labels {
		m[model.LabelName(name)] = model.LabelValue(value)
	}
	return m.String() + " " + strconv.FormatFloat(s.Value, 'g', -1, 64)
}

// Page serves samples in Prometheus' text format.
type Page struct {
	source func(context.Context) ([]Sample, error)

	mu  sync.Mutex
	how Samples
}

// NewPage returns a page with the samples that source returns for each scrape.
func NewPage(source func(context.Context) ([]Sample, error)) *Page { return &Page{source: source} }

// Serve sets the fault that is applied from the next scrape on.
func (p *Page) Serve(how Samples) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how = how
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	how := p.how
	p.mu.Unlock()
	samples, err := p.source(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, s := range spoilSamples(how, samples) {
		_, _ = fmt.Fprintln(w, s.line())
	}
}

// spoilSamples applies a fault to the samples.
func spoilSamples(how Samples, samples []Sample) []Sample {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return strings.Compare(a.line(), b.line()) })
	var out []Sample
	counts := map[string]int{}
	for _, s := range sorted {
		group := s.Name + "/" + s.Labels["namespace"]
		odd := counts[group]%2 == 1
		counts[group]++
		out = append(out, spoilSample(how, s, odd)...)
	}
	return out
}

func spoilSample(how Samples, s Sample, odd bool) []Sample {
	out := s
	switch how {
	case NaN:
		out.Value = math.NaN()
	case HalfNaN:
		if odd {
			out.Value = math.NaN()
		}
	case Infinite:
		out.Value = math.Inf(1)
	case MinusInf:
		out.Value = math.Inf(-1)
	case Huge:
		out.Value = 1e300
	case Negative:
		out.Value = -s.Value
	case Gone:
		return nil
	case HalfGone:
		if odd {
			return nil
		}
	case LabelLost:
		out = s.with("server", s.Labels["pod"]) // otherwise Prometheus would reject them as one series
		delete(out.Labels, "pod")
	case Doubled:
		return []Sample{s.with("replica", "a"), s.with("replica", "b")}
	case DoubledZero:
		out.Value = 0
		return []Sample{s.with("replica", "a"), out.with("replica", "b")}
	}
	return []Sample{out}
}

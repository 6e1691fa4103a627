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
)

// Samples is how a page tells its samples. The zero value is honest.
type Samples string

// Ways of telling samples. Half means every other one of a group: samples that
// are alike in name and namespace, in the order of their labels.
const (
	True        Samples = ""
	NaN         Samples = "NaN"
	HalfNaN     Samples = "half NaN"
	Infinite    Samples = "+Inf"
	Negative    Samples = "negative" // the value with its sign changed
	MinusInf    Samples = "-Inf"
	Huge        Samples = "1e300"
	Doubled     Samples = "doubled"      // each twice, as from a second replica
	DoubledZero Samples = "doubled zero" // and the second says 0
	LabelLost   Samples = "label lost"   // without the label pod
	HalfGone    Samples = "half gone"
	Gone        Samples = "gone"
	Zero        Samples = "zero"
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
	var b strings.Builder
	b.WriteString(s.Name)
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%s", name, strconv.Quote(s.Labels[name]))
	}
	b.WriteString("} ")
	b.WriteString(strconv.FormatFloat(s.Value, 'g', -1, 64))
	return b.String()
}

// Page serves samples in Prometheus' text format.
type Page struct {
	truth func(context.Context) ([]Sample, error)

	mu  sync.Mutex
	how Samples
}

// NewPage of the samples that truth returns for each scrape.
func NewPage(truth func(context.Context) ([]Sample, error)) *Page { return &Page{truth: truth} }

// Tell changes how samples are told from the next scrape on.
func (p *Page) Tell(how Samples) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how = how
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	how := p.how
	p.mu.Unlock()
	samples, err := p.truth(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, s := range tell(how, samples) {
		_, _ = fmt.Fprintln(w, s.line())
	}
}

// tell applies a way of telling to the truth.
func tell(how Samples, truth []Sample) []Sample {
	sorted := slices.SortedFunc(slices.Values(truth), func(a, b Sample) int { return strings.Compare(a.line(), b.line()) })
	var out []Sample
	counts := map[string]int{}
	for _, s := range sorted {
		group := s.Name + "/" + s.Labels["namespace"]
		odd := counts[group]%2 == 1
		counts[group]++
		out = append(out, tellOne(how, s, odd)...)
	}
	return out
}

func tellOne(how Samples, s Sample, odd bool) []Sample {
	told := s
	switch how {
	case NaN:
		told.Value = math.NaN()
	case HalfNaN:
		if odd {
			told.Value = math.NaN()
		}
	case Infinite:
		told.Value = math.Inf(1)
	case MinusInf:
		told.Value = math.Inf(-1)
	case Huge:
		told.Value = 1e300
	case Negative:
		told.Value = -s.Value
	case Zero:
		told.Value = 0
	case Gone:
		return nil
	case HalfGone:
		if odd {
			return nil
		}
	case LabelLost:
		told = s.with("server", s.Labels["pod"]) // or Prometheus would refuse them as one series
		delete(told.Labels, "pod")
	case Doubled:
		return []Sample{s.with("replica", "a"), s.with("replica", "b")}
	case DoubledZero:
		told.Value = 0
		return []Sample{s.with("replica", "a"), told.with("replica", "b")}
	}
	return []Sample{told}
}

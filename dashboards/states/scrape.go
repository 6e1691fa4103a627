package states

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// recording is what two Prometheuses hold of the same targets: one scrapes with
// honor_labels, the other without.
type recording struct {
	honored, plain *set
	targets        map[string]*target
	key            []byte // of known
	ruled          ruled
}

// target is something that is scraped.
type target struct {
	labels labels.Labels // as service discovery has them
	known  map[string]*pair
	last   map[*pair]bool // of the last scrape
}

// pair is one exposed series in both sets.
type pair struct{ honored, plain *series }

func (p *pair) add(ms int64, v float64) {
	p.honored.add(ms, v)
	p.plain.add(ms, v)
}

func newRecording() *recording {
	return &recording{honored: newSet(), plain: newSet(), targets: map[string]*target{}}
}

func (r *recording) families() []string {
	var out []string
	for name := range r.plain.byName {
		out = append(out, familyOf(r.plain, name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scrape stores a target's exposition at a time, nil for a target that did not answer.
// As in Prometheus' scrape loop, labels that clash with the target's are renamed or
// honoured, and missing series are marked stale.
func (r *recording) scrape(at time.Time, name string, sd labels.Labels, exposed []*dto.MetricFamily) {
	t := r.targets[name]
	if t == nil {
		t = &target{labels: sd, known: map[string]*pair{}}
		r.targets[name] = t
	}
	ms := at.UnixMilli()
	seen := map[*pair]bool{}
	up := 0.0
	if exposed != nil {
		up = 1
		r.take(t, ms, exposed, seen)
	}
	r.stale(t, ms, seen)
	r.report(t, ms, "up", up)
	r.report(t, ms, "scrape_samples_scraped", float64(len(seen)))
}

// take appends every value, a histogram's as the text format has them.
func (r *recording) take(t *target, ms int64, exposed []*dto.MetricFamily, seen map[*pair]bool) {
	for _, f := range exposed {
		for _, m := range f.GetMetric() {
			put := func(suffix, le string, v float64) {
				one := r.known(t, f.GetName()+suffix, le, m.GetLabel())
				one.add(ms, v)
				seen[one] = true
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
}

// known finds the pair of an exposed series, or makes it.
func (r *recording) known(t *target, name, le string, of []*dto.LabelPair) *pair {
	// The text parser hands out a histogram's labels in any order.
	slices.SortFunc(of, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	r.key = append(append(append(r.key[:0], name...), 0), le...)
	for _, l := range of {
		r.key = append(append(append(append(r.key, 0), l.GetName()...), 0), l.GetValue()...)
	}
	if one := t.known[string(r.key)]; one != nil {
		return one
	}
	b := labels.NewScratchBuilder(len(of) + 2)
	b.Add(labels.MetricName, name)
	if le != "" {
		b.Add("le", le)
	}
	for _, l := range of {
		b.Add(l.GetName(), l.GetValue())
	}
	b.Sort()
	ls := b.Labels()
	one := &pair{r.honored.add(honoured(ls, t.labels)), r.plain.add(renamed(ls, t.labels))}
	t.known[string(r.key)] = one
	return one
}

// stale marks series of the last scrape that are missing now.
func (r *recording) stale(t *target, ms int64, seen map[*pair]bool) {
	for one := range t.last {
		if !seen[one] {
			one.add(ms, math.Float64frombits(value.StaleNaN))
		}
	}
	t.last = seen
}

// report adds a series of Prometheus' own about the target.
func (r *recording) report(t *target, ms int64, name string, v float64) {
	one := t.known["\x00"+name]
	if one == nil {
		ls := labels.NewBuilder(t.labels).Set(labels.MetricName, name).Labels()
		one = &pair{r.honored.add(ls), r.plain.add(ls)}
		t.known["\x00"+name] = one
	}
	one.add(ms, v)
}

// gone is for a target that service discovery no longer lists.
func (r *recording) gone(at time.Time, name string) {
	t := r.targets[name]
	if t == nil {
		return
	}
	delete(r.targets, name)
	ms := at.UnixMilli()
	r.stale(t, ms, nil)
	for _, own := range []string{"up", "scrape_samples_scraped"} {
		t.known["\x00"+own].add(ms, math.Float64frombits(value.StaleNaN))
	}
}

// honoured are the labels with honor_labels: exposed ones win, an empty label included,
// which removes the target's.
func honoured(exposed, target labels.Labels) labels.Labels {
	b := labels.NewBuilder(exposed)
	target.Range(func(l labels.Label) {
		if !exposed.Has(l.Name) {
			b.Set(l.Name, l.Value)
		}
	})
	return b.Labels()
}

// renamed are the labels without honor_labels: the target's win, and what they displace
// is renamed to exported_.
func renamed(exposed, target labels.Labels) labels.Labels {
	b := labels.NewBuilder(exposed)
	target.Range(func(l labels.Label) {
		if clash := exposed.Get(l.Name); clash != "" {
			b.Set("exported_"+l.Name, clash)
		}
		b.Set(l.Name, l.Value)
	})
	return b.Labels()
}

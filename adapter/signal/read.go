package signal

import (
	"math"
	"strconv"
	"time"
)

// Reason says why a series' value was left out.
type Reason string

// Reasons, as they stand in the metric label.
const (
	NotANumber Reason = "nan"
	Infinite   Reason = "infinite"
	Stale      Reason = "stale" // older than MaxAge, or of unknown age
	Unlabelled Reason = "unlabelled"
	OutOfRange Reason = "out_of_range"
)

// Reasons returns all of them.
func Reasons() []Reason { return []Reason{NotANumber, Infinite, Stale, Unlabelled, OutOfRange} }

// Reading is when an answer was made: the time of evaluation as Prometheus
// says it, and the same moment on this process's clock. Ages are taken on
// Prometheus's own clock, so a skew between the two makes nothing look fresh.
type Reading struct {
	Evaluated time.Time
	Now       time.Time
}

// Read builds the next table from an answer to the rule's Query and the table
// before it. dropped counts the series that give no usable value, by reason.
func (t *Table) Read(samples []Sample, r Reading) (next *Table, dropped map[Reason]int) {
	next, dropped = NewTable(t.rule), map[Reason]int{}
	times := scrapeTimes(samples)
	scrapers := t.rule.scrapers(samples)
	var buffer []byte
	for _, s := range samples {
		source, ok := t.rule.sourceOf(s.Part, 'v')
		if !ok {
			continue
		}
		next.series++
		k, ok := t.rule.Subject.key(s.Labels)
		if !ok || scrapers[k] {
			dropped[Unlabelled]++
			continue
		}
		p := point{labels: s.Labels, value: s.Value * source.scale(), tier: source.Tier}
		buffer = append(append(buffer[:0], s.Part[1:]...), 0)
		buffer = append(buffer, s.Labels.Bytes(nil)...)
		reason := p.judge(t.rule, times[string(buffer)], r)
		if reason != "" {
			dropped[reason]++
		}
		next.add(k, p)
	}
	next.carry(t, r.Now)
	return next, dropped
}

// judge fills in when and whether the point is usable, and says why not. A
// stale value is not unusable: it ages out by itself, and its age is worth
// telling.
func (p *point) judge(rule Rule, scraped float64, r Reading) Reason {
	p.at = r.Now
	switch {
	case math.IsNaN(p.value):
		p.unusable = true
		return NotANumber
	case math.IsInf(p.value, 0):
		p.unusable = true
		return Infinite
	case p.value < rule.Minimum || p.value > rule.Maximum:
		p.unusable = true
		return OutOfRange
	case !(scraped > 0 && scraped < 1e11): // unknown, NaN or no time at all
		p.unusable = true
		return Stale
	}
	age := r.Evaluated.Sub(time.UnixMilli(int64(scraped * 1000)))
	if age < -rule.MaxAge {
		p.unusable = true
		return OutOfRange
	}
	age = max(age, 0)
	p.at = r.Now.Add(-age)
	if age > rule.MaxAge {
		return Stale
	}
	return ""
}

// scrapeTimes maps source and labels to the scrape time, in Unix seconds.
func scrapeTimes(samples []Sample) map[string]float64 {
	times := make(map[string]float64, len(samples)/2)
	for _, s := range samples {
		if len(s.Part) > 1 && s.Part[0] == 't' {
			times[s.Part[1:]+"\x00"+string(s.Labels.Bytes(nil))] = s.Value
		}
	}
	return times
}

// scrapers returns the pods that are scraped for news about others. Without
// honor_labels the series of a card nobody holds bears the exporter's own
// pod, which must not pass for a holder.
func (r Rule) scrapers(samples []Sample) map[Key]bool {
	if r.Subject != Holder {
		return nil
	}
	found := map[Key]bool{}
	for _, s := range samples {
		if s.Labels.Get(exportedPodLabel) != "" {
			found[scraped(s.Labels)] = true
		}
	}
	return found
}

// sourceOf returns the source a part label like "v0" speaks of.
func (r Rule) sourceOf(part string, kind byte) (Source, bool) {
	if len(part) < 2 || part[0] != kind {
		return Source{}, false
	}
	i, err := strconv.Atoi(part[1:])
	if err != nil || i < 0 || i >= len(r.Sources) {
		return Source{}, false
	}
	return r.Sources[i], true
}

func (s Source) scale() float64 {
	if s.Scale == 0 {
		return 1
	}
	return s.Scale
}

package signal

import (
	"math"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Reason is why a series' value was dropped.
type Reason string

// Reasons, as in the metric's label.
const (
	NotANumber Reason = "nan"
	Infinite   Reason = "infinite"
	Stale      Reason = "stale" // older than MaxAge, or of unknown age
	Unlabelled Reason = "unlabelled"
	OutOfRange Reason = "out_of_range"
	Untrusted  Reason = "untrusted" // names another namespace's pod without the right: see Rule.Exporters
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{NotANumber, Infinite, Stale, Unlabelled, OutOfRange, Untrusted}
}

func (r Reason) code() uint8 {
	for i, known := range Reasons() {
		if r == known {
			return uint8(i) + 1
		}
	}
	return 0
}

// Reading is the time of an answer: of its evaluation on Prometheus's clock, and
// of the same moment on this process's clock. Ages are computed on Prometheus's
// clock, so a skew between the two makes no sample look fresh.
type Reading struct {
	Evaluated time.Time
	Now       time.Time
}

// age of a sample scraped at a Unix time in seconds; false if that is no time,
// or later than clock skew explains.
func (r Reading) age(scraped float64, limit time.Duration) (time.Duration, bool) {
	if !(scraped > 0 && scraped < 1e11) {
		return 0, false
	}
	age := r.Evaluated.Sub(time.UnixMilli(int64(scraped * 1000)))
	return max(age, 0), age >= -limit
}

// Read builds the next table from an answer to the rule's Query and the table
// before it. dropped counts the series that give no usable value, by reason.
func (t *Table) Read(samples []Sample, r Reading) (next *Table, dropped map[Reason]int) {
	return t.ReadWith(new(Scratch), samples, r)
}

// ReadWith is Read with the memory of a previous one, of any rule.
func (t *Table) ReadWith(scratch *Scratch, samples []Sample, r Reading) (next *Table, dropped map[Reason]int) {
	a, series := scratch.begin(len(samples)/2), 0
	defer scratch.end()
	samples, dropped = t.rule.trusted(samples)
	b := t.rule.beside(samples, scratch.times, r)
	for i := range samples {
		s := &samples[i]
		giveWay(i)
		kind, n, ok := t.rule.partOf(s.Part)
		if !ok || kind != 'v' && kind != 'a' {
			continue
		}
		k, owned := t.rule.Subject.key(s.Labels)
		owned = owned && !b.scrapers[k]
		if kind == 'a' {
			if age, ok := r.age(s.Value, t.rule.MaxAge); owned && ok && age <= t.rule.MaxAge {
				a.add(k, t.rule.proof(n, s.Labels, r.Now.Add(-age)))
			}
			continue
		}
		series++
		if !owned {
			dropped[Unlabelled]++
			continue
		}
		p := point{labels: s.Labels, source: uint16(n), value: s.Value * t.rule.Sources[n].scale()}
		if reason := p.judge(&t.rule, k, b, r); reason != "" {
			dropped[reason]++
		}
		a.add(k, p)
	}
	a.carry(t, r.Now)
	return a.table(t.rule, series), dropped
}

// giveWay yields to requests every millisecond or so: building the table of a
// large cluster may otherwise occupy a processor for ten.
func giveWay(i int) {
	if i%1024 == 1023 {
		runtime.Gosched()
	}
}

// proof is the point that stands for a source's missing series.
func (r *Rule) proof(source int, ls labels.Labels, at time.Time) point {
	return point{labels: ls, value: r.Sources[source].Absent.Value, at: at.UnixMilli(), source: uint16(source), marks: evidence}
}

// judge sets the point's time and whether it is usable, and returns why not. A
// stale value is not unusable: it ages out by itself, and errors report its age.
func (p *point) judge(rule *Rule, k Key, b beside, r Reading) Reason {
	p.at = r.Now.UnixMilli()
	source := &rule.Sources[p.source]
	if math.IsNaN(p.value) && source.Idle != nil && (len(source.Idle.While) == 0 || b.idle[idle{k, int(p.source)}]) {
		p.value, p.marks = source.Idle.Value, p.marks|declared
	}
	drop := func(why Reason) Reason {
		p.why = why.code()
		return why
	}
	switch {
	case math.IsNaN(p.value):
		return drop(NotANumber)
	case math.IsInf(p.value, 0):
		return drop(Infinite)
	case p.value < rule.Minimum || p.value > rule.Maximum:
		return drop(OutOfRange)
	}
	scraped, known := b.scraped(int(p.source), p.labels)
	if !known || !(scraped > 0 && scraped < 1e11) {
		return drop(Stale)
	}
	age, ok := r.age(scraped, rule.MaxAge)
	if !ok {
		return drop(OutOfRange)
	}
	p.at = r.Now.Add(-age).UnixMilli()
	if age > rule.MaxAge {
		return Stale
	}
	return ""
}

// partOf returns the kind and the source of a part label like "v0".
func (r *Rule) partOf(part string) (kind byte, source int, ok bool) {
	if len(part) < 2 {
		return 0, 0, false
	}
	n, err := strconv.Atoi(part[1:])
	if err != nil || n < 0 || n >= len(r.Sources) {
		return 0, 0, false
	}
	return part[0], n, part[0] != 'a' || r.Sources[n].Absent != nil
}

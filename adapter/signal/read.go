package signal

import (
	"cmp"
	"math"
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
	Crowded    Reason = "crowded"   // its pod has more series than a table keeps
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{NotANumber, Infinite, Stale, Unlabelled, OutOfRange, Untrusted, Crowded}
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

// maxPodPoints bounds the series of one pod, those of the last ten minutes
// included. A pod with more has no value. llm-d's picker names the models that clients ask
// for, a thousand of them (pkg/epp/metrics/cardinality.go, v0.10.0), under two names.
const maxPodPoints = 2_048

// Read builds the next table from an answer to the rule's Query and the table
// before it. dropped counts the series that give no usable value, by reason.
func (t *Table) Read(samples []Sample, r Reading) (next *Table, dropped map[Reason]int) {
	samples, dropped = t.rule.trusted(samples)
	b := t.rule.beside(samples, r)
	next = &Table{rule: t.rule}
	older, still := t.index(), make([]bool, len(t.points))
	for i := range samples {
		s := &samples[i]
		kind, n, ok := t.rule.partOf(s.Part)
		if !ok || kind != 'v' && kind != 'a' && kind != 'p' {
			continue
		}
		k, owned := t.rule.Subject.key(s.Labels)
		owned = owned && !b.scrapers[k]
		var before *point
		at, met := older[stamp{n, s.Labels.Hash(), kind}]
		if met = met && labels.Equal(t.points[at].labels, s.Labels); met {
			before = &t.points[at]
		}
		if kind != 'v' {
			age, ok := r.age(s.Value, t.rule.MaxAge)
			p := t.rule.proof(kind, k, n, s.Labels, r.Now.Add(-age))
			p.observe(before)
			if owned && ok && age <= t.rule.limit(p.every) {
				if met {
					still[at] = true
				}
				next.points = append(next.points, p)
			}
			continue
		}
		next.series++
		if !owned {
			dropped[Unlabelled]++
			continue
		}
		if met && !b.timed(n, s.Labels) {
			continue // a scrape failed: the window still has a value, and the series has ended for now
		}
		if met {
			still[at] = true
		}
		p := point{key: k, labels: s.Labels, source: uint16(n), value: s.Value * cmp.Or(t.rule.Sources[n].Scale, 1)}
		if reason := p.judge(&t.rule, b, r, before); reason != "" {
			dropped[reason]++
		}
		next.points = append(next.points, p)
	}
	// A series that vanished is stale and not unknown. Evidence with a condition may have
	// vanished because the condition does not hold any more.
	for i, p := range t.points {
		conditional := p.is(evidence) && !p.is(page) && t.rule.Sources[p.source].Absent.Is != nil
		if !still[i] && !conditional && r.Now.Sub(time.UnixMilli(p.at)) <= Forget {
			p.marks |= gone
			next.points = append(next.points, p)
		}
	}
	if crowded := next.arrange(); crowded > 0 {
		dropped[Crowded] += crowded
	}
	return next, dropped
}

// index returns the places of the points that a series may continue.
func (t *Table) index() map[stamp]int {
	all := make(map[stamp]int, len(t.points))
	for i := range t.points {
		p := &t.points[i]
		all[stamp{int(p.source), p.labels.Hash(), p.kind()}] = i
	}
	return all
}

// stamp identifies a series by the hash of its labels.
type stamp struct {
	source int
	hash   uint64
	kind   byte
}

// idle identifies a subject with nothing to do, by its key and the values of
// Idle.By.
type idle struct {
	Key
	source int
	by     string
}

// beside is the part of an answer that is not values.
type beside struct {
	samples  []Sample
	times    map[stamp]int          // index of the sample with the scrape time
	idle     map[idle]time.Duration // how old the evidence is
	scrapers map[Key]bool
}

func (r *Rule) beside(samples []Sample, at Reading) beside {
	b := beside{samples: samples, times: map[stamp]int{}, idle: map[idle]time.Duration{}, scrapers: map[Key]bool{}}
	for i := range samples {
		s := &samples[i]
		// Without honor_labels the series of a GPU allocated to no pod has the
		// exporter's own pod, which must not count as the GPU's.
		if r.Subject == Exported && (s.Part == "s0" || s.Labels.Get(exportedPodLabel) != "") {
			b.scrapers[scraped(s.Labels)] = true
		}
		switch kind, n, ok := r.partOf(s.Part); {
		case !ok:
		case kind == 't':
			b.times[stamp{n, s.Labels.Hash(), 't'}] = i
		case kind == 'n':
			k, owned := r.Subject.key(s.Labels)
			if age, ok := at.age(s.Value, r.MaxAge); owned && ok {
				b.idle[idle{k, n, r.Sources[n].idleBy(s.Labels)}] = age
			}
		}
	}
	return b
}

// scraped returns the scrape time of a source's series, in Unix seconds.
func (b *beside) scraped(source int, ls labels.Labels) (float64, bool) {
	i, ok := b.times[stamp{source, ls.Hash(), 't'}]
	if !ok || !labels.Equal(b.samples[i].Labels, ls) {
		return 0, false
	}
	return b.samples[i].Value, true
}

// timed reports whether a source's series has a scrape time.
func (b *beside) timed(source int, ls labels.Labels) bool {
	_, ok := b.scraped(source, ls)
	return ok
}

// Scraped returns the pod that a sample of part "t" is about, and the time that it was
// scraped; false for another sample.
func (r *Rule) Scraped(s Sample) (pod string, at time.Time, ok bool) {
	kind, _, known := r.partOf(s.Part)
	k, owned := r.Subject.key(s.Labels)
	return k.Pod, time.UnixMilli(int64(1000 * s.Value)), known && kind == 't' && owned && k.Pod != "" && s.Value > 0 && s.Value < 1e11
}

// proof is the point of an "a" or a "p": it stands for a source's missing series, or for
// a scrape of its page.
func (r *Rule) proof(kind byte, k Key, source int, ls labels.Labels, at time.Time) point {
	p := point{key: k, labels: ls, at: at.UnixMilli(), source: uint16(source), marks: evidence}
	if kind == 'p' {
		p.marks |= page
	} else {
		p.value = r.Sources[source].Absent.Value
	}
	return p
}

// kind is the part that the point is made of.
func (p *point) kind() byte {
	switch {
	case p.is(page):
		return 'p'
	case p.is(evidence):
		return 'a'
	}
	return 'v'
}

// judge sets the point's time and whether it is usable, and returns why not. A
// stale value is not unusable: it ages out by itself, and errors report its age.
func (p *point) judge(rule *Rule, b beside, r Reading, before *point) Reason {
	p.at = r.Now.UnixMilli()
	scraped, known := b.scraped(int(p.source), p.labels)
	known = known && scraped > 0 && scraped < 1e11
	age, plausible := r.age(scraped, rule.MaxAge)
	if known && plausible {
		p.at = r.Now.Add(-age).UnixMilli()
		p.observe(before)
	}
	source := &rule.Sources[p.source]
	if math.IsNaN(p.value) && source.Idle != nil {
		old, shown := b.idle[idle{p.key, int(p.source), source.idleBy(p.labels)}]
		if len(source.Idle.While) == 0 || shown && old <= rule.limit(p.every) {
			p.value, p.marks = source.Idle.Value, p.marks|declared
		}
	}
	drop := func(why Reason) Reason {
		p.why, p.at = why.code(), r.Now.UnixMilli()
		return why
	}
	switch {
	case math.IsNaN(p.value):
		return drop(NotANumber)
	case math.IsInf(p.value, 0):
		return drop(Infinite)
	case p.value < rule.Minimum || p.value > rule.Maximum:
		return drop(OutOfRange)
	case !known:
		return drop(Stale)
	case !plausible:
		return drop(OutOfRange)
	case age > rule.limit(p.every):
		return Stale
	}
	return ""
}

// observe records the times between the series' last scrapes. The longer of two
// counts: where two replicas of Prometheus answer in turn, scrapes seem to follow one
// another sooner than they do.
func (p *point) observe(before *point) {
	if before == nil {
		return
	}
	p.every = before.every
	if before.why > 0 {
		return
	}
	if between := p.at - before.at; between >= time.Second.Milliseconds() {
		p.every = [2]int64{between, before.every[0]}
	}
}

const (
	// usual is the scrape interval while none has been observed: Prometheus' own
	// default.
	usual = time.Minute
	// Lookback is how long PromQL takes a sample for the present one.
	Lookback = 5 * time.Minute
)

// limit returns the age beyond which a sample is missing, given the times between
// its series' last scrapes: that one scrape is missed is no fault.
func (r *Rule) limit(every [2]int64) time.Duration {
	if r.Follow == 0 {
		return r.MaxAge
	}
	interval := time.Duration(max(every[0], every[1])) * time.Millisecond
	if interval == 0 {
		interval = usual
	}
	return max(r.MaxAge, min(interval*5/2+r.Follow, Lookback))
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
	s := &r.Sources[n]
	return part[0], n, (part[0] != 'a' || s.Absent != nil) && (part[0] != 'p' || s.Page != nil)
}

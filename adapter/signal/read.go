package signal

import (
	"cmp"
	"math"
	"strconv"
	"time"
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

// Reading is the time of an answer: of its evaluation on Prometheus's clock, and
// of the same moment on this process's clock. Ages are computed on Prometheus's
// clock, so a skew between the two makes no sample look fresh.
type Reading struct {
	Evaluated time.Time
	Now       time.Time
}

// Age of a sample scraped at a Unix time in seconds; false if that is no time,
// or later than clock skew explains.
func (r Reading) Age(scraped float64, limit time.Duration) (time.Duration, bool) {
	if !(scraped > 0 && scraped < 1e11) {
		return 0, false
	}
	age := r.Evaluated.Sub(time.UnixMilli(int64(scraped * 1000)))
	return max(age, 0), age >= -limit
}

// maxPodPoints and maxPodBytes bound one pod's series and the bytes of their labels, including
// those that vanished in the last ten minutes. A pod with more has no value. llm-d's picker names
// the models that clients ask for, a thousand of them (pkg/epp/metrics/cardinality.go, v0.10.0),
// under two names.
const (
	maxPodPoints = 2_048
	maxPodBytes  = 2 << 20
)

// Read builds the next table from an answer to the rule's Query and the table
// before it. dropped counts the series that give no usable value, by reason.
func (t *Table) Read(samples []Sample, r Reading) (next *Table, dropped map[Reason]int) {
	b := t.rule.beside(samples, r)
	next, dropped = NewTable(t.rule), map[Reason]int{}
	older := map[stamp]*point{} // those that this answer has not shown
	for _, points := range t.pods {
		for i := range points {
			older[points[i].stamp] = &points[i]
		}
	}
	for i := range samples {
		s := &samples[i]
		kind, n, ok := t.rule.partOf(s.Part)
		if !ok || kind != 'v' && kind != 'a' && kind != 'p' {
			continue
		}
		k, useless := t.rule.key(s.Labels)
		if b.scrapers[k] {
			useless = cmp.Or(useless, Unlabelled)
		}
		p := point{stamp: stamp{kind, uint16(n), s.Labels}}
		before := older[p.stamp]
		if kind != 'v' {
			age, ok := r.Age(s.Value, t.rule.MaxAge)
			p.observe(s.Value, r.Now.Add(-age), before)
			if kind == 'a' {
				p.value = t.rule.Sources[n].Absent.Value
			}
			if useless == "" && ok && age <= t.rule.limit(p.every) {
				delete(older, p.stamp)
				next.add(k, p)
			}
			continue
		}
		next.series++
		if useless != "" {
			dropped[useless]++
			continue
		}
		if _, timed := b.times[p.time()]; before != nil && !timed {
			continue // a scrape failed: the window still has a value, but the series has no current sample
		}
		delete(older, p.stamp)
		p.value = s.Value
		if scale := t.rule.Sources[n].Scale; scale != nil {
			p.value *= *scale
		}
		if reason := p.judge(k, &t.rule, b, r, before); reason != "" {
			dropped[reason]++
		}
		next.add(k, p)
	}
	// A series that vanished is stale, not unknown. Evidence with a condition is dropped:
	// it may have vanished because the condition no longer holds.
	for k, points := range t.pods {
		for _, p := range points {
			conditional := p.kind == 'a' && t.rule.Sources[p.source].Absent.While.Is != nil
			if older[p.stamp] != nil && !conditional && r.Now.Sub(time.UnixMilli(p.at)).Abs() <= Forget {
				p.gone = true
				next.add(k, p)
			}
		}
	}
	if crowded := next.arrange(); crowded > 0 {
		dropped[Crowded] += crowded
	}
	return next, dropped
}

// time returns the stamp of the series with a value's scrape time.
func (s stamp) time() stamp { return stamp{'t', s.source, s.labels} }

// idle identifies a subject with nothing to do, by its key and the values of
// Idle.By.
type idle struct {
	Key
	source int
	by     string
}

// beside is the part of an answer that is not values.
type beside struct {
	times    map[stamp]float64      // Unix seconds
	idle     map[idle]time.Duration // how old the evidence is
	scrapers map[Key]bool
}

func (r *Rule) beside(samples []Sample, at Reading) beside {
	b := beside{times: map[stamp]float64{}, idle: map[idle]time.Duration{}, scrapers: map[Key]bool{}}
	for i := range samples {
		s := &samples[i]
		k, useless := r.key(s.Labels)
		if useless == Untrusted {
			continue
		}
		// Without honor_labels the series of a GPU allocated to no pod has the
		// exporter's own pod, which must not count as the GPU's.
		if r.Subject == Exported && (s.Part == "s0" || s.Labels.Get(exportedPodLabel) != "") {
			b.scrapers[r.target(s.Labels)] = true
		}
		switch kind, n, ok := r.partOf(s.Part); {
		case !ok:
		case kind == 't':
			b.times[stamp{kind, uint16(n), s.Labels}] = s.Value
		case kind == 'n':
			if age, ok := at.Age(s.Value, r.MaxAge); useless == "" && ok {
				b.idle[idle{k, n, r.Sources[n].idleBy(s.Labels)}] = age
			}
		}
	}
	return b
}

// Scraped returns the pod that a sample of part "t" is about, and the time that it was
// scraped; false for another sample.
func (r *Rule) Scraped(s Sample) (pod string, at time.Time, ok bool) {
	kind, _, known := r.partOf(s.Part)
	k, useless := r.key(s.Labels)
	return k.Pod, time.UnixMilli(int64(1000 * s.Value)), known && kind == 't' && useless == "" && k.Pod != "" && s.Value > 0 && s.Value < 1e11
}

// judge sets the point's time, and its value if NaN has a declared one. It
// returns why the value is dropped, "" if it is usable. A stale value gets no
// p.why: it ages out by itself, and errors report its age.
func (p *point) judge(k Key, rule *Rule, b beside, r Reading, before *point) Reason {
	p.at = r.Now.UnixMilli()
	scraped, known := b.times[p.time()]
	known = known && scraped > 0 && scraped < 1e11
	age, plausible := r.Age(scraped, rule.MaxAge)
	if known && plausible {
		p.observe(scraped, r.Now.Add(-age), before)
	}
	source := &rule.Sources[p.source]
	if math.IsNaN(p.value) && source.Idle != nil {
		old, shown := b.idle[idle{k, int(p.source), source.idleBy(p.labels)}]
		if len(source.Idle.While) == 0 || shown && old <= rule.limit(p.every) {
			p.value, p.declared = source.Idle.Value, true
		}
	}
	drop := func(why Reason) Reason {
		p.why, p.at = why, r.Now.UnixMilli()
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

// observe records when the point was scraped, in Unix seconds on the server's clock and on this
// process's clock, and the times between its last scrapes. Those are on the server's clock,
// since an answer may be late. limit uses the longer of two: where two replicas of Prometheus
// answer in turn, scrapes seem closer together than they are.
func (p *point) observe(scraped float64, at time.Time, before *point) {
	p.scraped, p.at = int64(scraped*1000), at.UnixMilli()
	if before == nil {
		return
	}
	p.every = before.every
	if between := p.scraped - before.scraped; before.scraped > 0 && between >= time.Second.Milliseconds() {
		p.every = [2]int64{between, before.every[0]}
	}
}

const (
	// usual is the scrape interval while none has been observed: Prometheus' own
	// default.
	usual = time.Minute
	// Lookback is how long PromQL takes a sample for the current one (its
	// lookback delta).
	Lookback = 5 * time.Minute
)

// limit returns the age beyond which a sample is missing, given the milliseconds
// between its series' last scrapes. One missed scrape is tolerated.
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

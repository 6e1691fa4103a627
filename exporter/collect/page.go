package collect

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Page is an exposition without the time of a scrape. It is immutable, and any
// number of scrapes may write it at once.
type Page struct {
	// Taken is the Reading's time.
	Taken time.Time
	// LeftOut counts the series over the budget, by family.
	LeftOut  map[string]int
	families []pageFamily
	maxAge   time.Duration
}

// pageFamily is a family's samples.
type pageFamily struct {
	name, help, kind string
	aging            bool          // its values are the samples' ages
	maxAge           time.Duration // its own; the page's counts if that is longer
	samples          []pageSample
}

// pageSample is one series.
type pageSample struct {
	labels string
	value  float64
	taken  int64 // Unix nanoseconds
}

// add adds a sample. It leaves out a value without a time, which could not
// become stale, and a NaN or infinite value.
func (f *pageFamily) add(labels string, value float64, taken time.Time) {
	if taken.IsZero() || math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	f.samples = append(f.samples, pageSample{labels: labels, value: value, taken: taken.UnixNano()})
}

// Count is what an Append wrote and left out.
type Count struct{ Series, Stale int }

// Append appends the exposition as of now in Prometheus' text format, or in
// OpenMetrics' without its "# EOF". Values older than 2.5 intervals are left
// out, and a family without samples with them.
func (p *Page) Append(b []byte, now time.Time, openMetrics bool) ([]byte, Count) {
	// Not now's own wall clock, which may have been set since: a driver's last values would stay fresh while it hangs.
	at, count := p.Taken.Add(now.Sub(p.Taken)).UnixNano(), Count{}
	for i := range p.families {
		f := &p.families[i]
		before, start, oldest := count.Series, len(b), at-int64(max(p.maxAge, f.maxAge))
		b = f.appendHeader(b, openMetrics)
		for j := range f.samples {
			s := &f.samples[j]
			value := s.value
			switch {
			case f.aging:
				value = max(0, time.Duration(at-s.taken).Seconds())
			case s.taken < oldest:
				count.Stale++
				continue
			}
			b = append(append(b, f.name...), '{')
			b = append(append(b, s.labels...), '}', ' ')
			b = append(appendNumber(b, value), '\n')
			count.Series++
		}
		if count.Series == before {
			b = b[:start]
		}
	}
	return b, count
}

// bound limits a page to a number of series. Our own families come first on a page, so
// that they are left out last.
func (p *Page) bound(maxSeries int) {
	for i := range p.families {
		f := &p.families[i]
		if out := len(f.samples) - maxSeries; out > 0 {
			p.LeftOut[f.name] = out
			f.samples = f.samples[:maxSeries]
		}
		maxSeries -= len(f.samples)
	}
}

func (f *pageFamily) appendHeader(b []byte, openMetrics bool) []byte {
	name, kind, escaped := f.name, f.kind, escapedHelp
	if openMetrics {
		name, kind = openMetricsHeader(name, kind)
		escaped = escapedValue // OpenMetrics escapes quotes in a help too
	}
	b = append(append(append(b, "# HELP "...), name...), ' ')
	b = append(appendEscaped(b, f.help, escaped), '\n')
	b = append(append(append(b, "# TYPE "...), name...), ' ')
	return append(append(b, kind...), '\n')
}

// openMetricsHeader names a family as OpenMetrics does: a counter without its
// _total. A DCGM counter has none, and giving it one would rename the series
// for scrapers that request OpenMetrics, so its type becomes unknown.
func openMetricsHeader(name, kind string) (string, string) {
	if kind == "untyped" {
		return name, "unknown"
	}
	if kind != "counter" {
		return name, kind
	}
	if base, ok := strings.CutSuffix(name, "_total"); ok {
		return base, kind
	}
	return name, "unknown"
}

// appendNumber writes whole numbers without an exponent: most values are whole,
// and this is the cheapest way.
func appendNumber(b []byte, v float64) []byte {
	if whole := math.Trunc(v); whole == v && math.Abs(v) < 1<<53 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

package collect

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Page is an exposition but for the scrape's time: immutable, rendered by any
// number of scrapes at once.
type Page struct {
	// Taken is the Reading's time.
	Taken time.Time
	// Cards is how many cards the Reading has.
	Cards int
	// LeftOut counts the series over the budget, by family; nil where there are none.
	LeftOut  map[string]int
	families []pageFamily
	maxAge   time.Duration
}

// pageFamily is a family's samples.
type pageFamily struct {
	name, help, kind string
	aging            bool
	samples          []pageSample
}

// pageSample is one series: labels are shared with every other series of the
// same entity.
type pageSample struct {
	labels string
	value  float64
	taken  int64 // Unix nanoseconds
}

// add takes a sample. Without a time it could not go stale, and without a
// number it is not one: either is left out.
func (f *pageFamily) add(labels string, value float64, taken time.Time) {
	if taken.IsZero() || math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	f.samples = append(f.samples, pageSample{labels, value, taken.UnixNano()})
}

// Count is what an Append wrote and left out.
type Count struct{ Series, Stale int }

// Append appends the exposition as of now in Prometheus' text format, or in
// OpenMetrics' without its "# EOF". Values older than 2.5 intervals are left
// out, and a family without samples with them.
func (p *Page) Append(b []byte, now time.Time, openMetrics bool) ([]byte, Count) {
	at, count := now.UnixNano(), Count{}
	for i := range p.families {
		f := &p.families[i]
		before, start := count.Series, len(b)
		b = f.appendHeader(b, openMetrics)
		for j := range f.samples {
			s := &f.samples[j]
			age, value := at-s.taken, s.value
			if f.aging {
				value = max(0, time.Duration(age).Seconds())
			} else if age > int64(p.maxAge) {
				count.Stale++
				continue
			}
			b = append(b, f.name...)
			b = append(append(b, '{'), s.labels...)
			b = append(appendNumber(append(b, '}', ' '), value), '\n')
			count.Series++
		}
		if count.Series == before {
			b = b[:start]
		}
	}
	return b, count
}

func (f *pageFamily) appendHeader(b []byte, openMetrics bool) []byte {
	name, kind := f.name, f.kind
	if openMetrics {
		name, kind = openMetricsHeader(name, kind)
	}
	b = append(append(append(b, "# HELP "...), name...), ' ')
	b = append(appendEscaped(b, f.help, openMetrics), '\n')
	b = append(append(append(b, "# TYPE "...), name...), ' ')
	return append(append(b, kind...), '\n')
}

// openMetricsHeader names a family as OpenMetrics does: a counter without its
// _total. A DCGM counter has none, and giving it one would rename the series
// for scrapers that speak OpenMetrics, so its type becomes unknown.
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

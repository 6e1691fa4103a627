package collect

import (
	"math"
	"strconv"
	"strings"
)

// render makes all text that does not depend on the time of a scrape, so that a
// scrape only copies it. Unchanged families keep the text of the page before.
func (p *Page) render(before []pageFamily) {
	for i := range p.families {
		f := &p.families[i]
		var old *pageFamily
		if i < len(before) && before[i].name == f.name && before[i].kind == f.kind && before[i].help == f.help {
			old = &before[i]
		}
		f.renderHeaders(old)
		f.renderLines(old)
	}
}

func (f *pageFamily) renderHeaders(old *pageFamily) {
	if old != nil {
		f.header, f.openHeader = old.header, old.openHeader
		return
	}
	f.header = f.appendHeader(nil, f.name, f.kind, false)
	name, kind := openMetricsHeader(f.name, f.kind)
	f.openHeader = f.appendHeader(nil, name, kind, true)
}

func (f *pageFamily) renderLines(old *pageFamily) {
	f.oldest = math.MaxInt64
	for i := range f.samples {
		f.oldest = min(f.oldest, f.samples[i].taken)
	}
	if f.aging || f.keepLines(old) {
		return
	}
	size := 0
	for i := range f.samples {
		size += len(f.name) + len(f.samples[i].labels) + sampleBytes
	}
	f.lines = make([]byte, 0, size)
	for i := range f.samples {
		s := &f.samples[i]
		f.lines = f.appendLine(f.lines, s.labels, s.value)
		s.end = len(f.lines)
	}
}

// keepLines takes over the text of the page before and reports whether it is
// this family's. Label text is kept over pages, so that comparing it is cheap.
func (f *pageFamily) keepLines(old *pageFamily) bool {
	if old == nil || len(old.samples) != len(f.samples) {
		return false
	}
	for i := range f.samples {
		s, was := &f.samples[i], &old.samples[i]
		if s.value != was.value || s.labels != was.labels {
			return false
		}
		s.end = was.end
	}
	f.lines = old.lines
	return true
}

func (f *pageFamily) appendLine(b []byte, labels string, value float64) []byte {
	b = append(append(b, f.name...), '{')
	b = append(append(b, labels...), '}', ' ')
	return append(appendNumber(b, value), '\n')
}

func (f *pageFamily) appendHeader(b []byte, name, kind string, openMetrics bool) []byte {
	b = append(append(append(b, "# HELP "...), name...), ' ')
	b = append(appendEscaped(b, f.help, openMetrics), '\n')
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

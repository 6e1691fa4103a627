package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gpuscale/gpuscale/report/model"
)

// None replaces an unknown number; its reason stands beside it.
const None = "n/a"

// Hours writes GPU-hours, or any hours: whole from 100 on, three digits below.
func Hours(n model.Number) string {
	v, ok := n.Get()
	if !ok {
		return None
	}
	return digits(v)
}

// Count writes a number of things.
func Count(n model.Number) string { return Hours(n) }

// Money writes an amount without its currency.
func Money(n model.Number) string {
	v, ok := n.Get()
	if !ok {
		return None
	}
	if math.Abs(v) >= 1000 {
		return model.Thousands(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// digits writes three of them, whole numbers as they are.
func digits(v float64) string {
	switch {
	case math.Abs(v) < 1e-6:
		return "0"
	case v == math.Trunc(v) && math.Abs(v) < 1e15, math.Abs(v) >= 100:
		return model.Thousands(v)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case math.Abs(v) >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 1, 64)
}

// Share writes a share as percent.
func Share(n model.Number) string {
	v, ok := n.Get()
	if !ok {
		return None
	}
	p := 100 * v
	switch {
	case math.Abs(p) < 1e-6:
		return "0 %"
	case math.Abs(p) < 0.1:
		return "< 0.1 %"
	case model.NearlyAll(v):
		return strconv.FormatFloat(math.Floor(10*p)/10, 'f', 1, 64) + " %"
	case math.Abs(p) < 9.95:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// Seconds writes a time in the unit that suits it.
func Seconds(n model.Number) string {
	v, ok := n.Get()
	switch {
	case !ok:
		return None
	case v < 120:
		return digits(v) + " s"
	case v < 7200:
		return digits(v/60) + " min"
	}
	return digits(v/3600) + " h"
}

// Bytes writes a size.
func Bytes(n model.Number) string {
	v, ok := n.Get()
	if !ok {
		return None
	}
	return digits(v/(1<<30)) + " GiB"
}

// Tokens writes a large count.
func Tokens(n model.Number) string {
	v, ok := n.Get()
	switch {
	case !ok:
		return None
	case v >= 1e9:
		return digits(v/1e9) + " G"
	case v >= 1e6:
		return digits(v/1e6) + " M"
	}
	return model.Thousands(v)
}

// Time formats a time in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// Or writes a word, or a dash for none.
func Or(word string) string {
	if word == "" {
		return "–"
	}
	return word
}

// Visible replaces invisible characters and those that change the writing direction:
// names come from untrusted metrics.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return '\uFFFD'
		}
		return r
	}, s)
}

// Code is Visible for commands to copy: it keeps line breaks.
func Code(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Title is the report's.
func Title(r model.Report) string {
	return fmt.Sprintf("GPU capacity report, %s to %s UTC", Time(r.Window.From), Time(r.Window.Until))
}

package render

import (
	"strings"
	"time"
	"unicode"
)

// Time formats a time in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

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

package render

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/gpuscale/gpuscale/report/model"
)

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

package render

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/internal/text"
)

// Time formats a time in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// Code is text.Line for commands to copy: it keeps line breaks.
func Code(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = text.Line(lines[i])
	}
	return strings.Join(lines, "\n")
}

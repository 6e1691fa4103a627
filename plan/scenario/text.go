package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A field is printed as a word, and not at all where it has its zero value.

func stringText(b *strings.Builder, key, v string) {
	if v != "" {
		b.WriteString(" " + key + "=" + quote(v))
	}
}

func intText(b *strings.Builder, key string, v int) {
	if v != 0 {
		b.WriteString(" " + key + "=" + strconv.Itoa(v))
	}
}

func floatText(b *strings.Builder, key string, v float64) {
	if v != 0 {
		b.WriteString(" " + key + "=" + number(v))
	}
}

// number is the shortest text that reads back as v.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// agoText and inText write a time before and after now.
func agoText(b *strings.Builder, key string, t, now time.Time) {
	if !t.IsZero() {
		b.WriteString(" " + key + "=" + quote(timeText(t, now, -1)))
	}
}

func inText(b *strings.Builder, key string, t, now time.Time) {
	if !t.IsZero() {
		b.WriteString(" " + key + "=" + quote(timeText(t, now, 1)))
	}
}

func flagText(b *strings.Builder, key string, v bool) {
	if v {
		b.WriteString(" " + key)
	}
}

func lengthText(b *strings.Builder, key string, d time.Duration) {
	if d != 0 {
		b.WriteString(" " + key + "=" + durationText(d))
	}
}

func resourcesText(b *strings.Builder, cpuMilli, memoryMi int64) {
	switch {
	case cpuMilli != 0 && cpuMilli%1000 == 0:
		fmt.Fprintf(b, " cpu=%d", cpuMilli/1000)
	case cpuMilli != 0:
		fmt.Fprintf(b, " cpu=%dm", cpuMilli)
	}
	switch {
	case memoryMi != 0 && memoryMi%1024 == 0:
		fmt.Fprintf(b, " memory=%dGi", memoryMi/1024)
	case memoryMi != 0:
		fmt.Fprintf(b, " memory=%dMi", memoryMi)
	}
}

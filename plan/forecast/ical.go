package forecast

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bounds of a calendar.
const (
	maxICalLine   = 64 << 10
	maxHolidays   = 10_000
	maxHolidayRun = 366 // days of one event
)

// ReadICal reads the days of an iCalendar file (RFC 5545): of each VEVENT the dates from
// DTSTART up to but without DTEND, one where that is missing. It takes whole days only.
// What it does not know how to read is an error with file, line and property: times of day,
// RRULE, RDATE, EXDATE, DURATION and RECURRENCE-ID; a cancelled event (STATUS:CANCELLED)
// is left out. name is the file's name in errors.
func ReadICal(name string, r io.Reader) ([]time.Time, error) {
	in := icalReader{name: name, lines: bufio.NewScanner(r)}
	in.lines.Buffer(nil, maxICalLine)
	for in.next() && in.err == nil {
		in.take()
	}
	switch {
	case in.err != nil:
		return nil, in.err
	case in.lines.Err() != nil:
		return nil, fmt.Errorf("%s:%d: %w", name, in.line, in.lines.Err())
	case !in.calendar:
		return nil, fmt.Errorf("%s:1: no BEGIN:VCALENDAR", name)
	case len(in.open) > 0:
		return nil, fmt.Errorf("%s:%d: no END:%s", name, in.line, in.open[len(in.open)-1])
	case len(in.days) == 0:
		return nil, fmt.Errorf("%s: no VEVENT with a day", name)
	}
	return in.days, nil
}

type icalReader struct {
	name  string
	lines *bufio.Scanner
	line  int // of text
	read  int // lines so far
	text  string
	ahead string // the next line, where it was read to see whether it continues
	held  bool

	calendar    bool
	open        []string // components
	start, stop time.Time
	cancelled   bool
	days        []time.Time
	err         error
}

// next unfolds a line: those that begin with a space or a tab continue it.
func (in *icalReader) next() bool {
	if !in.held && !in.scan() {
		return false
	}
	in.text, in.line, in.held = in.ahead, in.read, false
	for in.scan() {
		if in.ahead == "" || in.ahead[0] != ' ' && in.ahead[0] != '\t' {
			in.held = true
			break
		}
		if in.text += in.ahead[1:]; len(in.text) > maxICalLine {
			in.fail("", "longer than %d bytes", maxICalLine)
			break
		}
	}
	return true
}

func (in *icalReader) scan() bool {
	if !in.lines.Scan() {
		return false
	}
	in.read++
	in.ahead = strings.TrimSuffix(in.lines.Text(), "\r")
	if in.read == 1 {
		in.ahead = strings.TrimPrefix(in.ahead, "\ufeff")
	}
	return true
}

func (in *icalReader) fail(property, format string, args ...any) {
	if in.err == nil {
		if property != "" {
			property += ": "
		}
		in.err = fmt.Errorf("%s:%d: %s%s", in.name, in.line, property, fmt.Sprintf(format, args...))
	}
}

// take reads one property.
func (in *icalReader) take() {
	if strings.TrimSpace(in.text) == "" {
		return
	}
	head, value, ok := strings.Cut(in.text, ":")
	if !ok {
		in.fail("", "%.40q: want NAME:VALUE", in.text)
		return
	}
	property, parameters, _ := strings.Cut(head, ";")
	property = strings.ToUpper(property)
	switch property {
	case "BEGIN":
		in.begin(strings.ToUpper(value))
		return
	case "END":
		in.end(strings.ToUpper(value))
		return
	}
	if len(in.open) != 2 || in.open[1] != "VEVENT" { // an alarm in an event has properties of its own
		return
	}
	switch property {
	case "DTSTART":
		in.start = in.day(property, parameters, value, in.start)
	case "DTEND":
		in.stop = in.day(property, parameters, value, in.stop)
	case "STATUS":
		in.cancelled = strings.EqualFold(value, "CANCELLED")
	case "RRULE", "RDATE", "EXDATE", "EXRULE", "DURATION", "RECURRENCE-ID":
		in.fail(property, "not supported: write each day as an event of its own")
	}
}

func (in *icalReader) begin(component string) {
	switch {
	case len(in.open) == 0 && component != "VCALENDAR":
		in.fail("BEGIN", "%.40q: want VCALENDAR", component)
	case len(in.open) > 8:
		in.fail("BEGIN", "%.40q: nested too deep", component)
	}
	in.calendar = true
	in.open = append(in.open, component)
	if component == "VEVENT" && len(in.open) == 2 {
		in.start, in.stop, in.cancelled = time.Time{}, time.Time{}, false
	}
}

func (in *icalReader) end(component string) {
	if n := len(in.open); n == 0 || in.open[n-1] != component {
		in.fail("END", "%.40q: not what began last", component)
		return
	}
	in.open = in.open[:len(in.open)-1]
	if component == "VEVENT" && len(in.open) == 1 {
		in.event()
	}
}

// event adds the days of an event that has ended.
func (in *icalReader) event() {
	if in.cancelled || in.err != nil {
		return
	}
	if in.stop.IsZero() {
		in.stop = in.start.AddDate(0, 0, 1)
	}
	switch {
	case in.start.IsZero():
		in.fail("DTSTART", "missing")
	case !in.stop.After(in.start):
		in.fail("DTEND", "%s: want a day after %s, which it ends before", in.stop.Format(time.DateOnly), in.start.Format(time.DateOnly))
	case in.stop.Sub(in.start) > maxHolidayRun*Day:
		in.fail("DTEND", "%s: more than %d days after the start", in.stop.Format(time.DateOnly), maxHolidayRun)
	}
	for d := in.start; in.err == nil && d.Before(in.stop); d = d.AddDate(0, 0, 1) {
		if in.days = append(in.days, d); len(in.days) > maxHolidays {
			in.fail("DTSTART", "more than %d days", maxHolidays)
		}
	}
}

// day reads a date; have is what the event has already.
func (in *icalReader) day(property, parameters, value string, have time.Time) time.Time {
	d, err := time.Parse("20060102", value)
	switch {
	case !have.IsZero():
		in.fail(property, "twice in one event")
	case err != nil:
		in.fail(property, "%.40q: want a day, such as 20261225: times of day are not supported", value)
	case parameters != "" && !strings.EqualFold(parameters, "VALUE=DATE"):
		in.fail(property, "%.40q: want no parameter but VALUE=DATE", parameters)
	case d.Year() < 1970:
		in.fail(property, "%s: want a day from 1970 on", d.Format(time.DateOnly))
	}
	return d
}

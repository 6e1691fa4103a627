package forecast

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// Bounds of a calendar.
const (
	maxICal       = 4 << 20 // bytes
	maxHolidays   = 10_000  // days of all events
	maxHolidayRun = 366     // days of one event
	lastYear      = 2100    // events are repeated until its end
)

// ReadICal reads the days of an iCalendar file (RFC 5545). A VEVENT covers the dates from
// DTSTART up to but without DTEND, or one day where DTEND is missing. RRULE repeats it, until
// the end of the year 2100, except on EXDATE. A cancelled event (STATUS:CANCELLED) is left
// out. Times of day, RDATE, EXRULE, DURATION and RECURRENCE-ID are not supported: they are an
// error with file, line and property. name is the file's name in errors.
func ReadICal(name string, r io.Reader) ([]time.Time, error) {
	all, err := io.ReadAll(io.LimitReader(r, maxICal+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(all) > maxICal:
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxICal)
	}
	var c ical
	text := strings.TrimPrefix(strings.ReplaceAll(string(all), "\r\n", "\n"), "\ufeff")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		at, line := i+1, strings.Builder{}
		line.WriteString(lines[i])
		for i++; i < len(lines) && lines[i] != "" && strings.ContainsRune(" \t", rune(lines[i][0])); i++ {
			line.WriteString(lines[i][1:]) // a line that begins with a space or a tab continues the one before
		}
		if err := c.property(line.String()); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, at, err)
		}
	}
	switch {
	case len(c.open) > 0:
		return nil, fmt.Errorf("%s:%d: no END:%s", name, len(lines), c.open[len(c.open)-1])
	case !c.begun:
		return nil, fmt.Errorf("%s:1: no BEGIN:VCALENDAR", name)
	case len(c.days) == 0:
		return nil, fmt.Errorf("%s: no VEVENT with a day", name)
	}
	return c.days, nil
}

// ical is a file as far as it is read, and the event that is being read.
type ical struct {
	begun       bool      // BEGIN:VCALENDAR was read
	open        []string  // components that have begun and not ended, the innermost last
	start, stop time.Time // DTSTART and DTEND; zero where not read
	cancelled   bool
	rule        *rrule.ROption // nil for an event that is not repeated
	but         []time.Time    // days on which a repeated event does not begin
	days        []time.Time    // of all events so far
}

func (c *ical) property(line string) error {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	head, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%.40q: want NAME:VALUE", line)
	}
	property, parameters, _ := strings.Cut(head, ";")
	property = strings.ToUpper(property)
	if property == "BEGIN" || property == "END" {
		return c.component(property, strings.ToUpper(value))
	}
	if len(c.open) != 2 || c.open[1] != "VEVENT" { // an alarm in an event has properties of its own
		return nil
	}
	var err error
	switch property {
	case "DTSTART":
		c.start, err = day(parameters, value, c.start)
	case "DTEND":
		c.stop, err = day(parameters, value, c.stop)
	case "STATUS":
		c.cancelled = strings.EqualFold(value, "CANCELLED")
	case "RRULE":
		if c.rule != nil {
			return fmt.Errorf("RRULE: twice in one event")
		}
		c.rule, err = repetition(strings.ToUpper(value))
	case "EXDATE":
		for one := range strings.SplitSeq(value, ",") {
			d, wrong := day(parameters, one, time.Time{})
			c.but, err = append(c.but, d), errors.Join(err, wrong)
		}
	case "RDATE", "EXRULE", "DURATION", "RECURRENCE-ID":
		err = fmt.Errorf("not supported: write each day as an event of its own")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", property, err)
	}
	return nil
}

func (c *ical) component(property, name string) error {
	n := len(c.open)
	switch {
	case property == "END" && (n == 0 || c.open[n-1] != name):
		return fmt.Errorf("END: %.40q: does not end what began last", name)
	case property == "END":
		if c.open = c.open[:n-1]; name == "VEVENT" && n == 2 {
			return c.event()
		}
		return nil
	case n == 0 && name != "VCALENDAR":
		return fmt.Errorf("BEGIN: %.40q: want VCALENDAR", name)
	case n > 8:
		return fmt.Errorf("BEGIN: %.40q: nested too deep", name)
	case name == "VEVENT" && n == 1:
		*c = ical{begun: c.begun, open: c.open, days: c.days}
	}
	c.begun, c.open = true, append(c.open, name)
	return nil
}

// event adds the days of an event that has ended.
func (c *ical) event() error {
	stop := c.stop
	if stop.IsZero() {
		stop = c.start.AddDate(0, 0, 1)
	}
	switch {
	case c.cancelled:
		return nil
	case c.start.IsZero():
		return fmt.Errorf("DTSTART: missing")
	case !stop.After(c.start):
		return fmt.Errorf("DTEND: %s: want a day after %s, which it ends before", stop.Format(time.DateOnly), c.start.Format(time.DateOnly))
	case stop.Sub(c.start) > maxHolidayRun*Day:
		return fmt.Errorf("DTEND: %s: more than %d days after the start", stop.Format(time.DateOnly), maxHolidayRun)
	}
	length := stop.Sub(c.start)
	add := func(start time.Time) bool {
		for d := start; d.Before(start.Add(length)) && !slices.ContainsFunc(c.but, start.Equal); d = d.AddDate(0, 0, 1) {
			c.days = append(c.days, d)
		}
		return len(c.days) <= maxHolidays
	}
	if c.rule == nil {
		add(c.start)
	} else if err := c.repeat(add); err != nil {
		return fmt.Errorf("RRULE: %w", err)
	}
	if len(c.days) > maxHolidays {
		return fmt.Errorf("DTSTART: more than %d days", maxHolidays)
	}
	return nil
}

// repetition reads an RRULE. A rule with times of day is an error.
func repetition(value string) (*rrule.ROption, error) {
	rule, err := rrule.StrToROption(value)
	if err == nil && (rule.Freq > rrule.DAILY || len(rule.Byhour)+len(rule.Byminute)+len(rule.Bysecond) > 0) {
		err = fmt.Errorf("%.40q: times of day are not supported", value)
	}
	if err == nil && (strings.Contains(value, "COUNT=") && rule.Count < 1 || strings.Contains(value, "INTERVAL=") && rule.Interval < 1) {
		err = fmt.Errorf("%.40q: want COUNT and INTERVAL above 0", value)
	}
	return rule, err
}

// repeat calls add with each day on which the event begins, until it returns false.
func (c *ical) repeat(add func(start time.Time) bool) error {
	c.rule.Dtstart = c.start
	rule, err := rrule.NewRRule(*c.rule)
	if err != nil {
		return err
	}
	next := rule.Iterator()
	for start, ok := next(); ok && start.Year() <= lastYear && add(start); start, ok = next() {
	}
	return nil
}

// day reads a date. have is the event's earlier value of the property, which must be zero.
func day(parameters, value string, have time.Time) (time.Time, error) {
	d, err := time.Parse("20060102", value)
	switch {
	case !have.IsZero():
		err = fmt.Errorf("twice in one event")
	case err != nil:
		err = fmt.Errorf("%.40q: want a day, such as 20261225: times of day are not supported", value)
	case parameters != "" && !strings.EqualFold(parameters, "VALUE=DATE"):
		err = fmt.Errorf("%.40q: want no parameter but VALUE=DATE", parameters)
	case d.Year() < 1970:
		err = fmt.Errorf("%s: want a day from 1970 on", d.Format(time.DateOnly))
	}
	return d, err
}

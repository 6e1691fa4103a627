package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
	_ "time/tzdata" // the image has no time zones

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan/forecast"
)

// HolidaysConfig is the days on which forecasts follow earlier holidays, or the weekend.
type HolidaysConfig struct {
	// TimeZone is the IANA name of the time zone of forecasts that name none; empty means UTC.
	TimeZone string `json:"timeZone"`
	// Weekend are the days from which a first holiday is forecast; empty means Saturday and
	// Sunday.
	Weekend []string `json:"weekend"`
	// Dates are days such as 2026-12-25.
	Dates []string `json:"dates"`
	// File is an iCalendar file of whole days, read at the start.
	File string `json:"file"`
}

// read returns the calendar, nil for none, and its time zone. It adds problems to p.
func (c *HolidaysConfig) read(p *problems) (*forecast.Holidays, *time.Location) {
	if c == nil {
		return nil, time.UTC
	}
	zone := p.zone("holidays.timeZone", c.TimeZone)
	weekend := []time.Weekday{time.Saturday, time.Sunday}
	if len(c.Weekend) > 0 {
		weekend = nil
	}
	for i, name := range c.Weekend {
		day := time.Sunday
		for ; day <= time.Saturday && day.String() != name; day++ {
		}
		if day > time.Saturday {
			p.add(fmt.Sprintf("holidays.weekend[%d]", i), "%q: want a day of the week, such as Saturday", name)
		}
		weekend = append(weekend, day)
	}
	var dates []time.Time
	for i, text := range c.Dates {
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			p.add(fmt.Sprintf("holidays.dates[%d]", i), "%q: want a day, such as 2026-12-25", text)
		}
		dates = append(dates, d)
	}
	if c.File != "" {
		fromFile, err := readICal(c.File)
		if err != nil {
			p.add("holidays.file", "%v", err)
		}
		dates = append(dates, fromFile...)
	}
	if len(dates) == 0 && c.File == "" {
		p.add("holidays", "want dates, a file or both")
	}
	return forecast.NewHolidays(weekend, dates), zone
}

// zone is a time zone by its IANA name.
func (p *problems) zone(field, name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		p.add(field, "%q: want an IANA time zone, such as Europe/Berlin", name)
	}
	return zone
}

func readICal(name string) ([]time.Time, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return forecast.ReadICal(name, file)
}

// Defaults, in place of 0s, and bounds of a forecast.
const (
	defaultHorizon = 10 * time.Minute
	defaultHistory = 7 * 24 * time.Hour
	defaultStep    = time.Minute
	maxSteps       = 10_999 // Prometheus' bound on a range query is 11,000 points
	// forecastEvery is the interval between forecasts; nodes take minutes.
	forecastEvery = 30 * time.Second
)

func withDefaults(s observe.Series) observe.Series {
	s.Horizon.Duration, s.History.Duration, s.Step.Duration = cmp.Or(s.Horizon.Duration, defaultHorizon), cmp.Or(s.History.Duration, defaultHistory), cmp.Or(s.Step.Duration, defaultStep)
	return s
}

func validateForecasts(all []observe.Series, url string, p *problems) {
	seen := map[string]bool{}
	for i, f := range all {
		at := fmt.Sprintf("forecasts[%d].", i)
		p.given(at+"namespace", f.Namespace)
		p.given(at+"name", f.Name)
		p.given(at+"query", f.Query)
		if f.Kind != "Deployment" && f.Kind != "StatefulSet" {
			p.add(at+"kind", "%q: want Deployment or StatefulSet", f.Kind)
		}
		if !(f.PerReplica > 0) {
			p.add(at+"perReplica", "%v: want more than 0", f.PerReplica)
		}
		p.zone(at+"timeZone", f.TimeZone)
		p.notNegative(at+"horizon", f.Horizon.Duration)
		p.notNegative(at+"history", f.History.Duration)
		p.notNegative(at+"step", f.Step.Duration)
		f = withDefaults(f)
		if history, step := f.History.Duration, f.Step.Duration; step > 0 && history/step > maxSteps {
			p.add(at+"step", "%s in steps of %s: want at most %d steps", history, step, maxSteps)
		} else if step > history {
			p.add(at+"step", "%s: longer than the history of %s", step, history)
		}
		// The planner identifies a workload by its namespace and name.
		if key := f.Namespace + "/" + f.Name; seen[key] {
			p.add(at+"name", "duplicate forecast for %s", key)
		} else {
			seen[key] = true
		}
	}
	if len(all) > 0 && url == "" {
		p.add("forecasts", "require prometheus.url")
	}
}

func newOutlooks(c Config, log *slog.Logger) (*observe.Outlooks, error) {
	var p problems
	holidays, zone := c.Holidays.read(&p)
	series := make([]observe.Series, len(c.Forecasts))
	for i, f := range c.Forecasts {
		series[i] = withDefaults(f)
		series[i].Zone = zone
		if f.TimeZone != "" {
			series[i].Zone = p.zone("timeZone", f.TimeZone)
		}
		if !f.IgnoreHolidays {
			series[i].Holidays = holidays
		}
	}
	if err := errors.Join(p...); err != nil { // the file has changed since it was checked
		return nil, err
	}
	if holidays != nil && !holidays.Ahead(time.Now().In(zone)) {
		log.Warn("the calendar has no holiday in the future: forecasts consider none", "file", c.Holidays.File)
	}
	if len(series) == 0 {
		return observe.NewOutlooks(nil, nil, forecastEvery, log), nil
	}
	client, err := prom.New(c.Prometheus.Config)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return observe.NewOutlooks(client, series, forecastEvery, log), nil
}

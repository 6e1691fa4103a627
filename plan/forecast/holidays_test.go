package forecast

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// office is a service that is used on working days: 10 by day, 2 at night and on weekends, and the given value on
// holidays. Its noise is a twentieth.
func office(from, to time.Time, holidays map[string]float64) []sample.Point {
	r := rand.New(rand.NewPCG(1, 1))
	var points []sample.Point
	for at := from; !at.After(to); at = at.Add(5 * time.Minute) {
		x := 2.0
		if d := at.Weekday(); d != time.Saturday && d != time.Sunday && at.Hour() >= 7 && at.Hour() < 19 {
			x = 10
		}
		if quiet, ok := holidays[at.Format(time.DateOnly)]; ok {
			x = quiet
		}
		points = append(points, sample.Point{At: at, Number: x * (1 + r.NormFloat64()/20)})
	}
	return points
}

func calendar(dates ...string) *Holidays {
	var days []time.Time
	for _, text := range dates {
		days = append(days, instant(text+" 00:00"))
	}
	return NewHolidays([]time.Weekday{time.Saturday, time.Sunday}, days)
}

func instant(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

// Friday 2026-12-25 is a holiday. Without a calendar the forecast expects a working day, before the holiday and hours
// into it; with one it follows earlier holidays, or the weekend.
func TestHolidays(t *testing.T) {
	for _, c := range []struct {
		name     string
		now      string
		days     int
		holidays map[string]float64
		horizon  time.Duration
		want     float64
		method   Method
		why      string
	}{
		{"the evening before, from weekends", "2026-12-24 23:00", 14, map[string]float64{"2026-12-25": 2}, 10 * time.Hour, 2, Weekend,
			"2026-12-25 is a holiday, and its history has no earlier one: the median of 3 day(s) of weekends"},
		{"its first moment, at noon of a busy day", "2026-12-24 12:00", 14, map[string]float64{"2026-12-25": 2}, 12 * time.Hour, 2, Weekend, "is a holiday"},
		{"before the working hours, from weekends", "2026-12-25 06:55", 7, map[string]float64{"2026-12-25": 2}, 10 * time.Minute, 2, Weekend, "2 day(s) of weekends"},
		{"in it, busier than weekends", "2026-12-25 11:00", 7, map[string]float64{"2026-12-25": 4}, 10 * time.Minute, 4, Weekend, "is a holiday"},
		{"from an earlier holiday", "2026-12-25 06:55", 28, map[string]float64{"2026-12-08": 5, "2026-12-25": 5}, 10 * time.Minute, 5, Holiday,
			"2026-12-25 is a holiday: the median of 1 earlier holiday(s) at this time of day"},
		{"a week after one", "2026-12-28 05:00", 21, map[string]float64{"2026-12-21": 2}, 5 * time.Hour, 10, "", "without 1 holiday(s)"},
	} {
		now := instant(c.now)
		points := office(now.AddDate(0, 0, -c.days), now, c.holidays)
		var dates []string
		for d := range c.holidays {
			dates = append(dates, d)
		}
		f := Make(points, Query{Now: now, Horizons: []time.Duration{c.horizon}, Holidays: calendar(dates...)})[0]
		got := get(f.Expected)
		if !f.Enough || math.Abs(got-c.want) > 0.15*c.want || !strings.Contains(f.Why, c.why) || c.method != "" && f.Method != c.method {
			t.Errorf("%s: %v\n%s\nwant about %v by %s: %q", c.name, f, f.Why, c.want, c.method, c.why)
		}
		if low, high := get(f.Low), get(f.High); !(low <= got && got <= high) || math.IsNaN(get(f.Error.MAPE)) {
			t.Errorf("%s: %v: want an interval about it, and its error", c.name, f)
		}
	}
}

// Without the calendar, four hours into a holiday, the forecast still expects a working day's load.
func TestHolidayWithoutCalendar(t *testing.T) {
	now := instant("2026-12-25 06:30")
	points := office(now.AddDate(0, 0, -14), now, map[string]float64{"2026-12-25": 2})
	query := Query{Now: now, Horizons: []time.Duration{time.Hour}}
	if got := get(Make(points, query)[0].Expected); !(got > 5) {
		t.Errorf("%v without a calendar: the other tests show nothing", got)
	}
	query.Holidays = calendar("2026-12-26")
	without := Make(points, Query{Now: now, Horizons: query.Horizons})[0]
	if got := Make(points, query)[0]; got.String() != without.String() {
		t.Errorf("%v with a holiday on another day, %v without", got, without)
	}
}

// A history of working days has no information about a holiday.
func TestHolidayUnknown(t *testing.T) {
	now := instant("2026-12-24 12:00")
	points := office(now.AddDate(0, 0, -3), now, nil)
	h := calendar("2026-12-25")
	f := Make(points, Query{Now: now, Horizons: []time.Duration{20 * time.Hour}, Holidays: h})[0]
	if f.Enough || f.Reason != TooShort || !strings.Contains(f.Why, "2026-12-25 is a holiday, and its history has no earlier one and no weekend") {
		t.Errorf("%v: %s", f, f.Why)
	}
	f = Make(points, Query{Now: now, Horizons: []time.Duration{math.MaxInt64, 80 * time.Hour}, Holidays: calendar("2026-12-27")})[1]
	if f.Enough || f.Reason != TooShort {
		t.Errorf("beyond the history: %v", f)
	}
}

// A holiday is a day of its time zone, and lies ahead until its midnight there.
func TestHolidayZone(t *testing.T) {
	tokyo := time.FixedZone("Tokyo", 9*3600)
	h := calendar("2026-12-25")
	for at, want := range map[string]bool{"2026-12-24 14:59": false, "2026-12-24 15:00": true, "2026-12-25 14:59": true, "2026-12-25 15:00": false} {
		if _, got := h.on(clock(instant(at), tokyo)); got != want {
			t.Errorf("%s UTC is a holiday in Tokyo: %v", at, got)
		}
	}
	if !h.Ahead(instant("2026-12-24 14:59").In(tokyo)) || h.Ahead(instant("2026-12-24 15:00").In(tokyo)) {
		t.Error("want the holiday ahead until 15:00 UTC")
	}
}

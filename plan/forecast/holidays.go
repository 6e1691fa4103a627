package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

const (
	profileDays = 3 // earlier days that a holiday is forecast from, at most
	holidayPast = 6 // newest values of a holiday that move the rest of it
)

// Holidays are days on which demand does not follow its usual course. They last from
// midnight to midnight of Query.Zone.
type Holidays struct {
	weekend []time.Weekday
	days    map[string]bool // by date, "2026-12-25"
}

// NewHolidays are the days of these dates; their time of day is ignored. Where the past has
// no earlier holiday, a holiday is forecast from the days of the weekend.
func NewHolidays(weekend []time.Weekday, dates []time.Time) *Holidays {
	h := &Holidays{weekend: weekend, days: make(map[string]bool, len(dates))}
	for _, d := range dates {
		h.days[dateOf(d)] = true
	}
	return h
}

func dateOf(t time.Time) string { return t.Format(time.DateOnly) }

// on is the holiday that a time of the clock is in.
func (h *Holidays) on(t time.Time) (date string, is bool) {
	if h == nil {
		return "", false
	}
	date = dateOf(t)
	return date, h.days[date]
}

// Ahead reports whether a holiday begins after now, in now's time zone.
func (h *Holidays) Ahead(now time.Time) bool {
	today := dateOf(now)
	for date := range h.days {
		if date > today {
			return true
		}
	}
	return false
}

// kind of a day.
type kind uint8

const (
	working kind = iota
	weekend
	holiday
)

// days is a grid with the day of each cell. Its times are the clock's.
type days struct {
	*Holidays
	g    *grid
	now  time.Time
	date []string // of each cell
	kind []kind   // of its day
}

func (h *Holidays) over(g *grid, now time.Time) *days {
	d := &days{Holidays: h, g: g, now: now, date: make([]string, len(g.mean)), kind: make([]kind, len(g.mean))}
	for i := range d.kind {
		t := d.at(i)
		d.date[i] = dateOf(t)
		switch {
		case h.days[d.date[i]]:
			d.kind[i] = holiday
		case slices.Contains(h.weekend, t.Weekday()):
			d.kind[i] = weekend
		}
	}
	return d
}

// at is the middle of a cell; cells count on after the newest.
func (d *days) at(cell int) time.Time {
	back := time.Duration(len(d.g.mean)-1-cell)*d.g.cell + d.g.cell/2
	return d.now.Add(-back)
}

// profile is the median of the newest profileDays days of a kind before that of t, at t's time
// of day, and how many days it is of; NaN for none. Only cells up to known count.
func (d *days) profile(of kind, t time.Time, known int) (float64, int) {
	var found []float64
	for back := 1; len(found) < profileDays; back++ {
		at := t.AddDate(0, 0, -back)
		i := len(d.g.mean) - 1 - int(math.Floor(float64(d.now.Sub(at))/float64(d.g.cell)))
		if i < 0 {
			break
		}
		if i <= known && d.kind[i] == of && !math.IsNaN(d.g.mean[i]) {
			found = append(found, d.g.mean[i])
		}
	}
	if len(found) == 0 {
		return math.NaN(), 0
	}
	return median(found), len(found)
}

// foretell forecasts a day of a kind from earlier days, from cell i for the later time t. A
// holiday is as earlier holidays, or as weekends where none is known; any other day is as
// weekends. Where i is in the same day as t, the day's newest values move the forecast. It
// returns the number of earlier days too.
func (d *days) foretell(i int, t time.Time, on kind) (float64, int, Method) {
	of, method := holiday, Holiday
	base, n := d.profile(of, t, i)
	if on != holiday || n == 0 {
		of, method = weekend, Weekend
		base, n = d.profile(of, t, i)
	}
	day := dateOf(t)
	if n == 0 || d.date[i] != day {
		return base, n, method
	}
	begin := i
	for begin > 0 && d.date[begin-1] == day {
		begin--
	}
	var off []float64
	for j := i; j >= begin && len(off) < holidayPast; j-- {
		if p, n := d.profile(of, d.at(j), begin-1); n > 0 && !math.IsNaN(d.g.mean[j]) {
			off = append(off, d.g.mean[j]-p)
		}
	}
	if len(off) > 0 {
		base += stat.Mean(off, nil)
	}
	return base, n, method
}

// answer forecasts the holiday that at, f's time on the clock, is in. Its errors are those of the same rule on earlier
// holidays, and on weekends too where these are too few.
func (d *days) answer(f *Forecast, at time.Time) {
	g := d.g
	t := trial{k: g.ahead(f.Horizon)}
	day, _ := d.on(at)
	f.Reason = TooShort
	if t.k >= len(g.mean) {
		_, f.Why = t.verdict(f.Horizon)
		return
	}
	live, n, method := d.foretell(len(g.mean)-1, at, holiday)
	if n == 0 {
		f.Why = fmt.Sprintf("%s is a holiday, and its history has no earlier one and no weekend", day)
		return
	}
	a := &attempt{method: method, season: Day, live: sane(live)}
	for _, least := range []kind{holiday, weekend} {
		if len(t.tests) < minTests {
			d.test(&t, a, least)
		}
	}
	if len(t.tests) < minTests {
		f.Why = fmt.Sprintf("%s is a holiday, and its history has too few holidays and weekends to say how far they differ", day)
		return
	}
	t.runs = [][]*attempt{{{past: lastValue{}.run(g, []int{t.k}, t.tests)[0]}}}
	t.fill(f, g, a, a)
	f.Why = fmt.Sprintf("%s is a holiday: the median of %d earlier holiday(s) at this time of day", day, n)
	if method == Weekend {
		f.Why = fmt.Sprintf("%s is a holiday, and its history has no earlier one: the median of %d day(s) of weekends at this time of day", day, n)
	}
}

// test forecasts the known cells of days of the kind least and rarer ones, each from t.k cells before.
func (d *days) test(t *trial, a *attempt, least kind) {
	t.tests, a.past = nil, nil
	for i := 0; i+t.k < len(d.g.mean); i++ {
		to := i + t.k
		if d.kind[to] < least || math.IsNaN(d.g.real[to]) {
			continue
		}
		if x, n, _ := d.foretell(i, d.at(to), d.kind[to]); n > 0 {
			t.tests, a.past = append(t.tests, i), append(a.past, sane(x))
		}
	}
}

// without is the grid for days that are no holidays: cells of holidays are unknown in it, so
// that no ordinary day is forecast from one. It returns the number of these holidays.
func (d *days) without() (*grid, int) {
	left := map[string]bool{}
	g := *d.g
	g.mean, g.last, g.real, g.seen = slices.Clone(g.mean), slices.Clone(g.last), slices.Clone(g.real), slices.Clone(g.seen)
	newest := -1
	for i, kind := range d.kind {
		if kind == holiday {
			left[d.date[i]] = true
			g.mean[i], g.last[i], g.real[i] = math.NaN(), math.NaN(), math.NaN()
		} else if d.g.seen[i] == i {
			newest = i
		}
		g.seen[i] = newest
	}
	return &g, len(left)
}

package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

const (
	profileDays = 3 // most earlier days that a holiday is forecast from
	holidayPast = 6 // newest values of a holiday that shift the forecast of its rest
)

// Holidays are days on which demand does not follow its usual course. They last from
// midnight to midnight of Query.Zone.
type Holidays struct {
	weekend []time.Weekday
	days    map[string]bool // by date, "2026-12-25"
}

// NewHolidays returns the holidays on some dates, whose times of day are ignored. Where the
// past has no earlier holiday, a holiday is forecast from the days of weekend.
func NewHolidays(weekend []time.Weekday, dates []time.Time) *Holidays {
	h := &Holidays{weekend: weekend, days: make(map[string]bool, len(dates))}
	for _, d := range dates {
		h.days[dateOf(d)] = true
	}
	return h
}

func dateOf(t time.Time) string { return t.Format(time.DateOnly) }

// on returns the date of a time of the clock, and whether it is a holiday.
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

// kind is the kind of a day, the rarest last.
type kind uint8

const (
	working kind = iota
	weekend
	holiday
)

// days is a grid with the date of each cell. Its times are those of the zone's clock.
type days struct {
	*Holidays
	g    *grid
	now  time.Time
	date []string // of each cell, "2026-12-25"
	kind []kind   // of each cell's day
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

// at returns the time of a cell's middle. A cell after the newest lies in the future.
func (d *days) at(cell int) time.Time {
	back := time.Duration(len(d.g.mean)-1-cell)*d.g.cell + d.g.cell/2
	return d.now.Add(-back)
}

// profile returns the median value at t's time of day on earlier days of a kind, and the
// number of these days; NaN for none. It uses the newest profileDays days, and no cell
// after known.
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

// foretell forecasts a later time t, on a day of kind on, from what is known at cell i. A
// holiday is forecast from holidays, or from weekends where no holiday is known; another day
// is forecast from weekends. Where cell i is in the same day as t, the day's newest values
// shift the forecast. It also returns the number of days that the forecast is from.
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

// answer forecasts the holiday at f's time, which is at on the clock. The errors are those of the same rule on
// earlier holidays, and where these are too few, on weekends too.
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

// test forecasts each known cell on a day of kind least, or of a rarer kind, from t.k cells before.
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

// without returns the grid for other days: holidays are unknown in it, so that no
// other day is forecast from one. It also returns the number of holidays.
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

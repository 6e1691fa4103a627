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
// midnight to midnight of a time zone.
type Holidays struct {
	zone    *time.Location
	weekend []time.Weekday
	days    map[date]bool
}

type date struct {
	year  int
	month time.Month
	day   int
}

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

func (d date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day) }

// NewHolidays are dates of a time zone, of which the clock is ignored. The weekend's
// days are what a holiday is forecast from where the past has no earlier one.
func NewHolidays(zone *time.Location, weekend []time.Weekday, dates []time.Time) *Holidays {
	h := &Holidays{zone: zone, weekend: weekend, days: make(map[date]bool, len(dates))}
	for _, d := range dates {
		h.days[dateOf(d)] = true
	}
	return h
}

// on is the holiday that a time is in.
func (h *Holidays) on(t time.Time) (date, bool) {
	if h == nil {
		return date{}, false
	}
	d := dateOf(t.In(h.zone))
	return d, h.days[d]
}

// Ahead reports whether a holiday begins after now.
func (h *Holidays) Ahead(now time.Time) bool {
	for d := range h.days {
		if time.Date(d.year, d.month, d.day, 0, 0, 0, 0, h.zone).After(now) {
			return true
		}
	}
	return false
}

// days is a grid as the calendar sees it.
type days struct {
	*Holidays
	g       *grid
	now     time.Time
	date    []date // of each cell
	holiday []bool
	weekend []bool
	// holidays and weekends are the days of the grid, ascending.
	holidays, weekends []date
	begin              map[date]int // first cell of each day
}

func (h *Holidays) over(g *grid, now time.Time) *days {
	n := len(g.mean)
	d := &days{Holidays: h, g: g, now: now, date: make([]date, n), holiday: make([]bool, n), weekend: make([]bool, n), begin: map[date]int{}}
	for i := range n {
		at := d.at(i)
		d.date[i], d.holiday[i] = h.on(at)
		d.weekend[i] = slices.Contains(h.weekend, at.Weekday())
		if _, seen := d.begin[d.date[i]]; seen {
			continue
		}
		d.begin[d.date[i]] = i
		switch {
		case d.holiday[i]:
			d.holidays = append(d.holidays, d.date[i])
		case d.weekend[i]:
			d.weekends = append(d.weekends, d.date[i])
		}
	}
	return d
}

// at is the middle of a cell, in the zone; cells count on after the newest.
func (d *days) at(cell int) time.Time {
	back := time.Duration(len(d.g.mean)-1-cell)*d.g.cell + d.g.cell/2
	return d.now.Add(-back).In(d.zone)
}

// cellAt is the cell at the clock time of t on a day; -1 where the grid has none.
func (d *days) cellAt(day date, t time.Time) int {
	clock := time.Date(day.year, day.month, day.day, t.Hour(), t.Minute(), t.Second(), 0, d.zone)
	i := len(d.g.mean) - 1 - int(math.Floor(float64(d.now.Sub(clock))/float64(d.g.cell)))
	if i < 0 || i >= len(d.g.mean) {
		return -1
	}
	return i
}

// profile is the median of the newest days before that of t, at its time of the
// day, that were known at cell `known`; NaN for none.
func (d *days) profile(of []date, t time.Time, known int) (float64, int) {
	var found []float64
	day := dateOf(t)
	for _, before := range slices.Backward(of) {
		if before == day || d.begin[before] > known || len(found) == profileDays {
			continue
		}
		if i := d.cellAt(before, t); i >= 0 && i <= known && !math.IsNaN(d.g.mean[i]) && d.date[i] == before {
			found = append(found, d.g.mean[i])
		}
	}
	if len(found) == 0 {
		return math.NaN(), 0
	}
	return median(found), len(found)
}

// foretell is what earlier days foretell, from cell i for the cell k later: a holiday is
// as holidays are, or as weekends are where none is known; another day is as weekends
// are. Where i is in the same day, the day's newest values move it. The count is of
// the days that it is taken from.
func (d *days) foretell(i, k int, holiday bool) (float64, int, Method) {
	t := d.at(i + k)
	of, method := d.holidays, Holiday
	base, n := d.profile(of, t, i)
	if !holiday || n == 0 {
		of, method = d.weekends, Weekend
		base, n = d.profile(of, t, i)
	}
	day := dateOf(t)
	if n == 0 || d.date[i] != day {
		return base, n, method
	}
	var off []float64
	for j := i; j >= d.begin[day] && len(off) < holidayPast; j-- {
		if p, n := d.profile(of, d.at(j), d.begin[day]-1); n > 0 && !math.IsNaN(d.g.mean[j]) {
			off = append(off, d.g.mean[j]-p)
		}
	}
	if len(off) > 0 {
		base += stat.Mean(off, nil)
	}
	return base, n, method
}

// answer forecasts a holiday. Its errors are those of the same rule on the holidays
// before, and where these are too few also on weekends.
func (d *days) answer(f *Forecast) {
	g := d.g
	t := trial{k: g.ahead(f.Horizon)}
	day, _ := d.on(f.At)
	f.Reason = TooShort
	if t.k >= len(g.mean) {
		_, f.Why = t.verdict(f.Horizon)
		return
	}
	live, n, method := d.foretell(len(g.mean)-1, t.k, true)
	if n == 0 {
		f.Why = fmt.Sprintf("%s is a holiday, and its history has no earlier one and no weekend", day)
		return
	}
	a := &attempt{method: method, season: Day, live: sane(live)}
	d.test(&t, a, d.holiday)
	if len(t.tests) < minTests {
		t.tests, a.past = nil, nil
		d.test(&t, a, d.weekend)
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

// test foretells the known cells of some days from so many cells before.
func (d *days) test(t *trial, a *attempt, of []bool) {
	for i := 0; i+t.k < len(d.g.mean); i++ {
		to := i + t.k
		if !of[to] || math.IsNaN(d.g.real[to]) {
			continue
		}
		if x, n, _ := d.foretell(i, t.k, d.holiday[to]); n > 0 {
			t.tests, a.past = append(t.tests, i), append(a.past, sane(x))
		}
	}
}

// without is the grid for other days: what is known of holidays is left out, so that no
// ordinary day is forecast from one. It returns how many were.
func (d *days) without() (*grid, int) {
	if len(d.holidays) == 0 {
		return d.g, 0
	}
	g := *d.g
	g.mean, g.last, g.real, g.seen = slices.Clone(g.mean), slices.Clone(g.last), slices.Clone(g.real), slices.Clone(g.seen)
	newest := -1
	for i, off := range d.holiday {
		if off {
			g.mean[i], g.last[i], g.real[i] = math.NaN(), math.NaN(), math.NaN()
		} else if d.g.seen[i] == i {
			newest = i
		}
		g.seen[i] = newest
	}
	return &g, len(d.holidays)
}

package query

import (
	"fmt"
	"slices"
	"time"
)

// Window is the time range of a report: after From, up to and including Until. Both are multiples of every
// step since 1970. The steps of a PromQL subquery are aligned the same way, so a query over the window reads
// the same samples as the report.
type Window struct {
	From, Until time.Time
	// Step is for queries with few series, Ledger for the autoscaler's counters, and Coarse for queries with a series
	// per pod. Each is a multiple of the one before.
	Step, Ledger, Coarse time.Duration
	// Scrape is the observed scrape interval.
	Scrape time.Duration

	until  time.Time // the requested end
	since  time.Duration
	series int // series that a query with Step reads at each moment: GPUs, or allocations
}

// short is the longest step that may be a divisor of an hour. Many loads start at fixed minutes of the hour.
// A longer step is short times a number without a factor of 2 or 3, so that successive steps fall on every
// five-minute mark of an hour and of a day.
const short = 5 * time.Minute

// steps are the available steps. Each divides all later ones.
var steps = []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, short, 5 * short, 25 * short, 125 * short}

// Bounds of a window, and of the answer to one query.
const (
	Shortest   = time.Minute
	Longest    = 400 * 24 * time.Hour
	finePoints = 8640    // points of one series over the window
	manyPoints = 720     // the same if there are many series
	maxCells   = 2500000 // points of one query over the whole window
	maxRead    = 1000000 // points that one request with Step may read: some seconds of a core of Prometheus
)

// NewWindow returns the window of length since that ends at until, rounded to whole steps. It fails if since
// is too short or too long.
func NewWindow(until time.Time, since time.Duration) (Window, error) {
	if since < Shortest || since > Longest {
		return Window{}, fmt.Errorf("%s is not a valid window: want %s to %d days", since, Shortest, Longest/(24*time.Hour))
	}
	w := Window{Step: steps[0], Scrape: 30 * time.Second, until: until.UTC(), since: since}
	for w.cells(1, w.Step) > finePoints {
		w.Step = next(w.Step)
	}
	w.Ledger, w.Coarse = w.Step, w.coarse(0)
	return w.align(), nil
}

// align truncates the window to whole steps.
func (w Window) align() Window {
	w.Until = w.until.Add(-time.Duration(w.until.UnixNano()) % w.Coarse)
	w.From = w.Until.Add(-max(w.since.Round(w.Coarse), w.Coarse))
	return w
}

// coarse is the shortest multiple of Step that gives few enough points and contains enough scrapes.
func (w Window) coarse(scrape time.Duration) time.Duration {
	fits := func(step time.Duration) bool {
		return step%w.Step == 0 && step >= scrapes*scrape && w.cells(1, step) <= manyPoints
	}
	for _, step := range steps {
		if step <= short && fits(step) {
			return step
		}
	}
	n := time.Duration(5)
	for n%2 == 0 || n%3 == 0 || !fits(n*short) {
		n++
	}
	return n * short
}

// cells is the number of points in an answer over the window.
func (w Window) cells(series int, step time.Duration) int { return series * int(w.since/step) }

// Length of the window.
func (w Window) Length() time.Duration { return w.Until.Sub(w.From) }

// scrapes is the minimum number of scrapes in one step of a counter. With fewer, one scrape more or less
// would look like GPUs that appear or disappear.
const scrapes = 4

// widen chooses longer steps where scrapes are rare or an answer has many series. Steps below five minutes
// are only for cheap queries: reading a scrape twice adds nothing, and for thousands of GPUs fewer moments
// are a good enough sample. No step exceeds Coarse.
func (w Window) widen(scrape time.Duration, nodes, series, ledgerRows int) Window {
	w.Scrape, w.series, w.Coarse = scrape, series, w.coarse(scrape)
	for next(w.Step) <= w.Coarse && (w.cells(nodes, w.Step) > maxCells || w.Step < short && (w.Step < scrape*3/4 || w.cells(series, w.Step) > maxCells)) {
		w.Step = next(w.Step)
	}
	if w.Coarse = w.coarse(scrape); w.cells(nodes, w.Step) > maxCells {
		w.Step = w.Coarse
	}
	w.Ledger = w.Step
	for w.Ledger < w.Coarse && (w.Ledger < scrapes*scrape || w.cells(ledgerRows, w.Ledger) > maxCells) {
		if w.Ledger = next(w.Ledger); w.Coarse%w.Ledger != 0 {
			w.Ledger = w.Coarse
		}
	}
	return w.align()
}

// next is the next longer step.
func next(step time.Duration) time.Duration {
	at, _ := slices.BinarySearch(steps, step+1)
	return steps[min(at, len(steps)-1)]
}

// longestRate bounds the range of rates. A range of hours would begin before most pods did, so their busy
// time would be too low; and a pod that computes once in hours would never count as idle.
const longestRate = short

// rate is the range of a rate at Step. It is long enough to survive one or two missed scrapes.
func (w Window) rate() time.Duration { return max(min(w.Step, longestRate), 4*w.Scrape) }

// Grid is the moments of a range query: From + i × Step for i = 0 … N. The value at i stands for the time
// since moment i-1, so the value at 0 stands for no time.
type Grid struct {
	From time.Time
	Step time.Duration
	N    int
}

// Grid returns the window's moments for a step.
func (w Window) Grid(step time.Duration) Grid {
	return Grid{From: w.From, Step: step, N: int(w.Length() / step)}
}

// At returns the moment i.
func (g Grid) At(i int) time.Time { return g.From.Add(time.Duration(i) * g.Step) }

// Index returns the index of the moment t, and whether t is a moment of the grid.
func (g Grid) Index(t time.Time) (int, bool) {
	d := t.Sub(g.From)
	i := int((d + g.Step/2) / g.Step)
	return i, d > -g.Step/2 && i <= g.N
}

// seconds formats a duration for PromQL.
func seconds(d time.Duration) string {
	if d%time.Hour == 0 && d > 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	if d%time.Minute == 0 && d > 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(1, d/time.Second))
}

package query

import (
	"fmt"
	"slices"
	"time"
)

// Window is the time of a report: after From, up to and including Until. Both are
// multiples of every step since 1970, as the steps of a PromQL subquery are, so that a
// query over the window reads the same samples as the report.
type Window struct {
	From, Until time.Time
	// Step is for what has few series, Ledger for the autoscaler's counters, and
	// Coarse for what has a series a pod. Each is a multiple of the one before.
	Step, Ledger, Coarse time.Duration
	// Scrape is the observed scrape interval.
	Scrape time.Duration

	until  time.Time // as asked for
	since  time.Duration
	series int // of GPUs, or of what is allocated, that a query in Step reads at each
}

// short is the longest step that may divide an hour. Loads begin by the clock, so longer steps are multiples of it
// by a number without a factor of 2 or 3: one after the other they meet each five minutes of an hour, and of a day.
const short = 5 * time.Minute

// steps to choose from. Each divides all that follow.
var steps = []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, short, 5 * short, 25 * short, 125 * short}

// Bounds of a window, and of one query's answer.
const (
	Shortest   = time.Minute
	Longest    = 400 * 24 * time.Hour
	finePoints = 8640    // of a series over the window
	manyPoints = 720     // of one of many series
	maxCells   = 2500000 // points of one query over the whole window
	maxRead    = 1000000 // points of the series that one request in Step reads: some seconds of a core of Prometheus
)

// NewWindow returns the window of length since that ends at until, rounded down to whole
// steps. The error is for a since that is too short or too long.
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

// coarse is the shortest multiple of Step that makes few enough points, each of enough scrapes.
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

// cells are the points of an answer about the window.
func (w Window) cells(series int, step time.Duration) int { return series * int(w.since/step) }

// Length of the window.
func (w Window) Length() time.Duration { return w.Until.Sub(w.From) }

// scrapes is the number of scrapes per step of counters: with fewer, one more or less
// would look like GPUs that come and go.
const scrapes = 4

// widen takes longer steps where scrapes are far apart, and where an answer has many
// series. Steps below five minutes are for what is cheap: a scrape is read once, and
// of thousands of GPUs few moments are as good a sample as many. No step exceeds Coarse.
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

// next is the next longer of the steps.
func next(step time.Duration) time.Duration {
	at, _ := slices.BinarySearch(steps, step+1)
	return steps[min(at, len(steps)-1)]
}

// longestRate bounds the range of rates. In steps of hours it would reach back before most pods began, whose
// busy time would be too short by half a step, and whatever computes once in hours would never be idle.
const longestRate = short

// rate is the range of a rate at Step: long enough to survive a missed scrape or two.
func (w Window) rate() time.Duration { return max(min(w.Step, longestRate), 4*w.Scrape) }

// Grid is the moments at which a query is evaluated: From + i × Step for i from 0
// to N. What is measured at i stands for the time since i-1, so 0 stands for none.
type Grid struct {
	From time.Time
	Step time.Duration
	N    int
}

// Grid returns the moments of the window in a step of it.
func (w Window) Grid(step time.Duration) Grid {
	return Grid{From: w.From, Step: step, N: int(w.Length() / step)}
}

// At returns the moment i.
func (g Grid) At(i int) time.Time { return g.From.Add(time.Duration(i) * g.Step) }

// Index returns which moment t is, and whether it is one.
func (g Grid) Index(t time.Time) (int, bool) {
	d := t.Sub(g.From)
	i := int((d + g.Step/2) / g.Step)
	return i, d > -g.Step/2 && i <= g.N
}

// seconds writes a duration as PromQL has it.
func seconds(d time.Duration) string {
	if d%time.Hour == 0 && d > 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	if d%time.Minute == 0 && d > 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(1, d/time.Second))
}

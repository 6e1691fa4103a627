package query

import (
	"fmt"
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

	until time.Time // as asked for
	since time.Duration
}

// steps are the steps to choose from. Each divides all that follow.
var steps = []time.Duration{
	15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// Bounds of a window, and of one query's answer.
const (
	Shortest   = time.Minute
	Longest    = 400 * 24 * time.Hour
	finePoints = 8640    // of a series over the window
	manyPoints = 720     // of one of many series
	maxCells   = 2000000 // points of one query over the whole window
)

// NewWindow returns the window of length since that ends at until, rounded down to whole
// steps. The error is for a since that is too short or too long.
func NewWindow(until time.Time, since time.Duration) (Window, error) {
	if since < Shortest || since > Longest {
		return Window{}, fmt.Errorf("%s is not a valid window: want %s to %d days", since, Shortest, Longest/(24*time.Hour))
	}
	w := Window{Step: fit(since, finePoints), Coarse: fit(since, manyPoints), Scrape: 30 * time.Second, until: until.UTC(), since: since}
	w.Ledger = w.Step
	return w.align(), nil
}

// align truncates the window to whole steps.
func (w Window) align() Window {
	w.Until = w.until.Truncate(w.Coarse)
	w.From = w.Until.Add(-max(w.since.Round(w.Coarse), w.Coarse))
	return w
}

// fit returns the shortest step of which at most n make up the time.
func fit(since time.Duration, n int) time.Duration {
	for _, s := range steps {
		if since/s <= time.Duration(n) {
			return s
		}
	}
	return steps[len(steps)-1]
}

// Length of the window.
func (w Window) Length() time.Duration { return w.Until.Sub(w.From) }

// scrapes is the number of scrapes per step of counters: with fewer, one more or less
// would look like GPUs that come and go.
const scrapes = 4

// widen takes longer steps where scrapes are far apart, and where an answer has many
// series. No step exceeds Coarse.
func (w Window) widen(scrape time.Duration, nodes, ledgerRows int) Window {
	w.Scrape = scrape
	for w.Coarse < scrapes*scrape && w.Coarse < steps[len(steps)-1] {
		w.Coarse = next(w.Coarse)
	}
	w = w.align()
	for w.Ledger < w.Coarse && w.Ledger < scrapes*scrape {
		w.Ledger = next(w.Ledger)
	}
	for w.Step < w.Coarse && nodes*int(w.Length()/w.Step) > maxCells {
		w.Step = next(w.Step)
	}
	w.Ledger = max(w.Ledger, w.Step)
	for w.Ledger < w.Coarse && ledgerRows*int(w.Length()/w.Ledger) > maxCells {
		w.Ledger = next(w.Ledger)
	}
	return w
}

func next(s time.Duration) time.Duration {
	for _, n := range steps {
		if n > s {
			return n
		}
	}
	return s
}

// longestRate bounds the range of rates. In steps of hours it would reach back before most pods began, whose
// busy time would be too short by half a step, and whatever computes once in hours would never be idle.
const longestRate = 5 * time.Minute

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

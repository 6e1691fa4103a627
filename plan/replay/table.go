package replay

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// Options of a replay.
type Options struct {
	Policies  []string
	Inflation float64 // pods to let arrive, in times the capacity: 1 … 10
	FirstSeed int
	Seeds     int // 1 … 1000, each its own order of arrival
	Workers   int // replays at a time, 1 for fewer
	// Now is the clock for the seconds of the table; nil for none.
	Now func() time.Time
	// Done is called as each replay ends, one at a time; nil for none.
	Done func(Run)
}

// Run is one replay.
type Run struct {
	Policy  string
	Seed    int
	Seconds float64
	Outcome
}

// Stat is a mean over seeds and their standard deviation, 0 for a single one.
type Stat struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// Row is the result of one policy: percent of all GPUs, pods, and seconds per
// seed.
type Row struct {
	Policy        string  `json:"policy"`
	At100         Stat    `json:"allocatedAt100Percent"`
	AtEnd         Stat    `json:"allocatedAtEndPercent"`
	Fragmentation Stat    `json:"fragmentationAt100Percent"`
	Placed        float64 `json:"placedPods"`
	Skipped       float64 `json:"skippedPods"`
	Seconds       float64 `json:"secondsPerSeed"`
}

// Table is the result.
type Table struct {
	Note      string  `json:"note"`
	Nodes     int     `json:"nodes"`
	GPUs      float64 `json:"gpus"`
	Pods      int     `json:"pods"`
	Inflation float64 `json:"inflation"`
	Seeds     int     `json:"seeds"`
	FirstSeed int     `json:"firstSeed"`
	Rows      []Row   `json:"rows"`
}

const (
	noteFractions = "fractions of GPUs: comparable with the table of Weng et al. (ATC 2023) where the lists are theirs"
	noteMIG       = "our own MIG variant (fractions become instances of seven-slice GPUs): not comparable with any published table"
)

// Replay runs every policy with every seed and returns the table. Except for
// the seconds it does not depend on the number of workers.
func Replay(w *World, o Options) (Table, error) {
	if err := CheckPolicies(o.Policies); err != nil {
		return Table{}, err
	}
	if !(o.Inflation >= 1 && o.Inflation <= 10) {
		return Table{}, fmt.Errorf("inflation %g: want 1 … 10", o.Inflation)
	}
	if o.Seeds < 1 || o.Seeds > 1000 {
		return Table{}, fmt.Errorf("%d seeds: want 1 … 1000", o.Seeds)
	}
	runs := make([]Run, len(o.Policies)*o.Seeds)
	for i := range runs {
		runs[i].Policy, runs[i].Seed = o.Policies[i/o.Seeds], o.FirstSeed+i%o.Seeds
	}
	each(w, o, runs)
	t := Table{Note: noteFractions, Nodes: len(w.nodes), GPUs: float64(w.capacity) / 1000, Pods: len(w.requests),
		Inflation: o.Inflation, Seeds: o.Seeds, FirstSeed: o.FirstSeed}
	if w.mig {
		t.Note = noteMIG
	}
	for i, policy := range o.Policies {
		t.Rows = append(t.Rows, newRow(policy, runs[i*o.Seeds:(i+1)*o.Seeds]))
	}
	return t, nil
}

// each fills in runs, o.Workers at a time.
func each(w *World, o Options, runs []Run) {
	next := make(chan *Run)
	var done sync.Mutex
	var workers sync.WaitGroup
	for range max(1, min(o.Workers, len(runs))) {
		workers.Go(func() {
			for r := range next {
				o.one(w, r)
				if o.Done != nil {
					done.Lock()
					o.Done(*r)
					done.Unlock()
				}
			}
		})
	}
	for i := range runs {
		next <- &runs[i]
	}
	close(next)
	workers.Wait()
}

func (o Options) one(w *World, r *Run) {
	var start time.Time
	if o.Now != nil {
		start = o.Now()
	}
	r.Outcome = w.run(r.Policy, r.Seed, o.Inflation)
	if o.Now != nil {
		r.Seconds = o.Now().Sub(start).Seconds()
	}
}

func newRow(policy string, runs []Run) Row {
	mean := func(of func(Run) float64) Stat {
		var s Stat
		for _, r := range runs {
			s.Mean += of(r) / float64(len(runs))
		}
		for _, r := range runs {
			s.SD += (of(r) - s.Mean) * (of(r) - s.Mean)
		}
		s.SD = math.Sqrt(s.SD / float64(max(1, len(runs)-1)))
		return s
	}
	return Row{
		Policy:        policy,
		At100:         mean(func(r Run) float64 { return r.At100 }),
		AtEnd:         mean(func(r Run) float64 { return r.AtEnd }),
		Fragmentation: mean(func(r Run) float64 { return r.Fragmentation }),
		Placed:        mean(func(r Run) float64 { return float64(r.Placed) }).Mean,
		Skipped:       mean(func(r Run) float64 { return float64(r.Skipped) }).Mean,
		Seconds:       mean(func(r Run) float64 { return r.Seconds }).Mean,
	}
}

// String returns the table as text.
func (t Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %.0f GPUs, %d pods; seeds %d … %d; %s\n", t.Nodes, t.GPUs, t.Pods, t.FirstSeed, t.FirstSeed+t.Seeds-1, t.Note)
	fmt.Fprintf(&b, "%-9s %15s %15s %15s %9s %9s %8s\n", "policy", "at 100 %", fmt.Sprintf("at %.0f %%", 100*t.Inflation), "fragmentation", "placed", "skipped", "s/seed")
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "%-9s %15s %15s %15s %9.1f %9.1f %8.2f\n", r.Policy, r.At100, r.AtEnd, r.Fragmentation, r.Placed, r.Skipped, r.Seconds)
	}
	return b.String()
}

// String returns "95.39 ± 0.11".
func (s Stat) String() string { return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.SD) }

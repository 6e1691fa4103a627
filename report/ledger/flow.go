package ledger

import (
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// flow is the capacity counters of all replicas, added up.
type flow struct {
	pms      [][2]string
	capacity map[[2]string][]float64
	present  []bool // steps with a sample
	broken   []bool // steps with a counter reset or without a sample
	lives    map[string]*life
	step     float64
	// before and after are the nearest steps to each that are not broken, 0 for none.
	before, after []int
}

// life is what is known of a replica's process, by step. All its counters start together.
type life struct {
	again map[int]bool // it restarted
	first int          // of its first sample
	stale []bool       // without a sample
	taken []bool       // another replica counted
	// base are steps whose value exceeds what it can have counted since the last sample of
	// any replica: it started before. back is over how many steps another is spread.
	base map[int]bool
	back map[int]int
}

func newFlow(counters []counter, places []prom.Line, g query.Grid, known int) *flow {
	f := &flow{
		capacity: map[[2]string][]float64{}, present: make([]bool, g.N+1), broken: make([]bool, g.N+1), lives: map[string]*life{}, step: g.Step.Seconds(),
	}
	f.live(counters)
	f.hidden(places, g)
	for _, l := range f.lives {
		l.taken = f.taken(l)
	}
	for i := range counters {
		c := &counters[i]
		l := f.lives[c.replica]
		c.growth, c.begun = Growth(c.values, known, l.again, l.taken)
	}
	for k := 1; k <= g.N; k++ {
		f.broken[k] = !f.present[k] || !f.present[k-1]
	}
	f.rebase(counters)
	for i := range counters {
		c := &counters[i]
		sum := f.capacity[c.pm]
		if sum == nil {
			sum = make([]float64, g.N+1)
			f.capacity[c.pm] = sum
			f.pms = append(f.pms, c.pm)
		}
		for _, k := range c.begun {
			if f.lives[c.replica].begin(c.growth, k) {
				f.broken[k] = true
			}
		}
		for k, v := range c.growth {
			sum[k] += v
		}
	}
	slices.SortFunc(f.pms, func(a, b [2]string) int { return strings.Compare(a[0]+"\xff"+a[1], b[0]+"\xff"+b[1]) })
	f.link()
	return f
}

// live finds when each replica's process was read and when it started.
func (f *flow) live(counters []counter) {
	for _, c := range counters {
		l := f.lives[c.replica]
		if l == nil {
			l = &life{again: map[int]bool{}, first: len(c.values), stale: slices.Repeat([]bool{true}, len(c.values)), base: map[int]bool{}, back: map[int]int{}}
			f.lives[c.replica] = l
		}
		last := math.NaN()
		for k, v := range c.values {
			if math.IsNaN(v) {
				continue
			}
			if v < last {
				l.again[k] = true
			}
			f.present[k], l.stale[k], l.first, last = true, false, min(l.first, k), v
		}
	}
}

// hidden finds the restarts after which the capacity has already grown past its last
// value, by a place that has not.
func (f *flow) hidden(places []prom.Line, g query.Grid) {
	for _, line := range places {
		l := f.lives[replica(line.Labels)]
		if l == nil {
			continue
		}
		last := math.NaN()
		for k, v := range Values(line, g) {
			if l.stale[k] {
				continue
			}
			// A process never drops a counter: one that is gone belonged to the process before.
			if v < last || math.IsNaN(v) && !math.IsNaN(last) {
				l.again[k] = true
			}
			last = v
		}
	}
}

// taken are the steps in which a replica other than this one was read, or over which another
// one continues without a sample: only one replica leads.
func (f *flow) taken(of *life) []bool {
	t := make([]bool, len(f.present))
	for _, l := range f.lives {
		if l == of {
			continue
		}
		last := -1
		for k, is := range f.present {
			if !is {
				continue
			}
			t[k] = t[k] || !l.stale[k]
			if last >= 0 && !l.stale[last] && !l.stale[k] && !between(l.again, last, k) {
				for i := last + 1; i < k; i++ { // no replica was read
					t[i] = true
				}
			}
			last = k
		}
	}
	return t
}

// begin corrects the growth of a counter in the step in which it began, and reports whether
// its process did. Else the process continues: it started at an unknown time after the last
// sample of the process.
func (l *life) begin(growth []float64, k int) bool {
	started := l.again[k] || l.first == k
	from := k
	switch {
	case started && l.base[k]:
		growth[k] = 0
		return true
	case started:
		from = k + 1 - max(1, l.back[k])
	default:
		for from > 1 && l.stale[from-1] {
			from--
		}
	}
	each := growth[k] / float64(k-from+1)
	growth[k] = 0
	for i := from; i <= k; i++ {
		growth[i] += each
	}
	return started
}

// rebase finds replicas whose first value exceeds what they can have counted within the
// time that is not accounted for: a label was changed, or Prometheus discovered them
// late. Such a value is a base, not growth.
func (f *flow) rebase(counters []counter) {
	for i := range counters {
		c := &counters[i]
		l := f.lives[c.replica]
		for _, k := range c.begun {
			rate := math.NaN() // of the counter right after
			for n := k + 1; n < len(c.values) && n <= k+5; n++ {
				if !math.IsNaN(c.values[n]) && c.values[n] >= c.values[k] {
					rate = (c.values[n] - c.values[k]) / float64(n-k)
					break
				}
			}
			before := k - 1
			for before > 0 && !f.present[before] {
				before--
			}
			// Two steps more: replicas overlap while the Lease changes its holder.
			if most := rate * float64(k-before+2); c.values[k] > most && c.values[k] > 2*f.step {
				l.base[k] = true
			}
			if rate > 0 {
				l.back[k] = max(l.back[k], min(int(math.Ceil(c.values[k]/rate-0.01)), k-before))
			}
		}
	}
}

// link finds the complete steps around each.
func (f *flow) link() {
	n := len(f.broken)
	f.before, f.after = make([]int, n), make([]int, n)
	for k := 2; k < n; k++ {
		if f.before[k] = k - 1; f.broken[k-1] {
			f.before[k] = f.before[k-1]
		}
	}
	for k := n - 2; k > 0; k-- {
		if f.after[k] = k + 1; f.broken[k+1] {
			f.after[k] = f.after[k+1]
		}
	}
}

// usual is the mean growth over the nearest complete steps, NaN for none. One step alone
// shows the beat of scrapes against the grid.
func usual(growth []float64, k int, along []int) float64 {
	sum, n := 0.0, 0
	for k = along[k]; k > 0 && n < 6; k = along[k] {
		sum += growth[k]
		n++
	}
	return sum / float64(n)
}

// expected is the growth to assume for the counter of a pool and model at step k: no
// more than before and after the gap. A counter absent before the gap is not expected;
// one that does not return is expected until the window's end.
func (f *flow) expected(pm [2]string, k int) float64 {
	before, after := usual(f.capacity[pm], k, f.before), usual(f.capacity[pm], k, f.after)
	switch {
	case math.IsNaN(before):
		return 0
	case math.IsNaN(after):
		return before
	}
	return min(before, after)
}

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
	broken   []bool // steps with a counter reset or without a sample
	baseline map[replicaAt]bool
	// again are the steps in which a replica restarted, first is the step of its first
	// sample, stale are the steps without one.
	again  map[string]map[int]bool
	first  map[string]int
	stale  map[string][]bool
	others map[string][]bool // see taken
	back   map[replicaAt]int // steps over which a replica's first value is spread
	step   float64
	usual  map[[2]string]neighbours
}

// replicaAt is a replica whose first value, at a step, exceeds what it can have counted
// since the last sample of any replica: it started before.
type replicaAt struct {
	replica string
	k       int
}

func newFlow(counters []counter, places []prom.Line, g query.Grid, known int) *flow {
	f := &flow{
		capacity: map[[2]string][]float64{}, broken: make([]bool, g.N+1), baseline: map[replicaAt]bool{}, back: map[replicaAt]int{}, step: g.Step.Seconds(),
	}
	present := make([]bool, g.N+1)
	for i := range counters {
		c := &counters[i]
		for k, v := range c.values {
			present[k] = present[k] || !math.IsNaN(v)
		}
	}
	f.lives(counters)
	f.hidden(places, g)
	for i := range counters {
		c := &counters[i]
		for k := range c.values {
			if f.stale[c.replica][k] {
				c.values[k] = math.NaN()
			}
		}
		c.growth, c.begun = growthOf(c.values, known, f.again[c.replica], f.taken(c.replica))
	}
	for k := 1; k <= g.N; k++ {
		f.broken[k] = !present[k] || !present[k-1]
	}
	f.rebase(counters, present)
	for i := range counters {
		c := &counters[i]
		sum := f.capacity[c.pm]
		if sum == nil {
			sum = make([]float64, g.N+1)
			f.capacity[c.pm] = sum
			f.pms = append(f.pms, c.pm)
		}
		for _, k := range c.begun {
			if !f.again[c.replica][k] && f.first[c.replica] != k {
				f.spread(c.growth, c.replica, k) // a new pool of a process that continues
				continue
			}
			f.broken[k] = true
			f.settle(c.growth, replicaAt{c.replica, k})
		}
		for k, v := range c.growth {
			sum[k] += v
		}
	}
	slices.SortFunc(f.pms, func(a, b [2]string) int { return strings.Compare(a[0]+"\xff"+a[1], b[0]+"\xff"+b[1]) })
	f.usual = map[[2]string]neighbours{}
	for _, pm := range f.pms {
		f.usual[pm] = f.neighbours(f.capacity[pm])
	}
	return f
}

// lives finds when each replica's process was read and when it started: all its counters
// start together.
func (f *flow) lives(counters []counter) {
	f.again, f.first, f.stale, f.others = map[string]map[int]bool{}, map[string]int{}, map[string][]bool{}, map[string][]bool{}
	for _, c := range counters {
		if f.stale[c.replica] == nil {
			f.again[c.replica], f.stale[c.replica] = map[int]bool{}, make([]bool, len(c.values))
			for k := range c.values {
				f.stale[c.replica][k] = true
			}
			f.first[c.replica] = len(c.values)
		}
		last := -1
		for k, v := range c.values {
			if math.IsNaN(v) {
				continue
			}
			if last >= 0 && v < c.values[last] {
				f.again[c.replica][k] = true
			}
			f.stale[c.replica][k] = false
			f.first[c.replica] = min(f.first[c.replica], k)
			last = k
		}
	}
}

// hidden finds the restarts after which the capacity has already grown past its last
// value, by a place that has not.
func (f *flow) hidden(places []prom.Line, g query.Grid) {
	for _, l := range places {
		who := replica(l.Labels)
		last := math.NaN()
		for k, v := range Values(l, g) {
			if f.stale[who] == nil || f.stale[who][k] {
				continue
			}
			// A process never drops a counter: one that is gone belonged to the process before.
			if v < last || math.IsNaN(v) && !math.IsNaN(last) {
				f.again[who][k] = true
			}
			last = v
		}
	}
}

// taken are the steps in which another replica was read, or over which another one
// continues without a sample: only one replica leads.
func (f *flow) taken(replica string) []bool {
	if t, ok := f.others[replica]; ok {
		return t
	}
	t := make([]bool, len(f.broken))
	for who, stale := range f.stale {
		for k := range t {
			t[k] = t[k] || who != replica && !stale[k]
		}
	}
	for _, h := range f.holes() {
		for who, stale := range f.stale {
			if who == replica || stale[h[0]] || stale[h[1]] || between(f.again[who], h[0], h[1]) {
				continue
			}
			for k := h[0] + 1; k < h[1]; k++ {
				t[k] = true
			}
		}
	}
	f.others[replica] = t
	return t
}

// holes are the steps before and after each time in which no replica was read.
func (f *flow) holes() [][2]int {
	var all [][2]int
	last := -1
	for k := range f.broken {
		idle := true
		for _, stale := range f.stale {
			idle = idle && stale[k]
		}
		if idle {
			continue
		}
		if last >= 0 && k > last+1 {
			all = append(all, [2]int{last, k})
		}
		last = k
	}
	return all
}

// spread is for a counter that appears while its process continues: it started at an
// unknown time after the last sample of the process.
func (f *flow) spread(growth []float64, replica string, k int) {
	begin := k
	for begin > 1 && f.stale[replica][begin-1] {
		begin--
	}
	each := growth[k] / float64(k-begin+1)
	for i := begin; i <= k; i++ {
		growth[i] = each
	}
}

// rebase finds replicas whose first value exceeds what they can have counted within the
// time that is not accounted for: a label was changed, or Prometheus discovered them
// late. Such a value is a base, not growth.
func (f *flow) rebase(counters []counter, present []bool) {
	for i := range counters {
		c := &counters[i]
		for _, k := range c.begun {
			rate := math.NaN() // of the counter right after
			for n := k + 1; n < len(c.values) && n <= k+5; n++ {
				if !math.IsNaN(c.values[n]) && c.values[n] >= c.values[k] {
					rate = (c.values[n] - c.values[k]) / float64(n-k)
					break
				}
			}
			before := k - 1
			for before > 0 && !present[before] {
				before--
			}
			at := replicaAt{c.replica, k}
			// Two steps more: replicas overlap while the Lease changes its holder.
			if most := rate * float64(k-before+2); c.values[k] > most && c.values[k] > 2*f.step {
				f.baseline[at] = true
			}
			if rate > 0 {
				f.back[at] = max(f.back[at], min(int(math.Ceil(c.values[k]/rate-0.01)), k-before))
			}
		}
	}
}

// settle corrects the growth of a counter in the step of its first value: none if the
// counter started before, else spread over the steps without a sample before it.
func (f *flow) settle(growth []float64, at replicaAt) {
	if f.baseline[at] {
		growth[at.k] = 0
		return
	}
	if n := f.back[at]; n > 1 {
		each := growth[at.k] / float64(n)
		growth[at.k] = 0
		for k := at.k - n + 1; k <= at.k; k++ {
			growth[k] += each
		}
	}
}

// neighbours is the mean growth of a counter over the nearest complete steps before and
// after; NaN for none.
type neighbours struct{ before, after []float64 }

func (f *flow) neighbours(growth []float64) neighbours {
	n := len(growth)
	o := neighbours{nans(n), nans(n)}
	var before, after recent
	for k := 1; k < n; k++ {
		o.before[k] = before.mean()
		if !f.broken[k] {
			before.add(growth[k])
		}
	}
	for k := n - 1; k > 0; k-- {
		o.after[k] = after.mean()
		if !f.broken[k] {
			after.add(growth[k])
		}
	}
	return o
}

// recent is the last few of a list of numbers. One step alone shows the beat of scrapes
// against the grid.
type recent struct {
	values [6]float64
	n      int
}

func (r *recent) add(v float64) {
	r.values[r.n%len(r.values)] = v
	r.n++
}

func (r *recent) mean() float64 {
	n := min(r.n, len(r.values))
	if n == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range r.values[:n] {
		sum += v
	}
	return sum / float64(n)
}

// expected is the growth to assume for the counter of a pool and model at step k: no
// more than before and after the gap. A counter absent before the gap is not expected;
// one that does not return is expected until the window's end.
func (f *flow) expected(pm [2]string, k int) float64 {
	before, after := f.usual[pm].before[k], f.usual[pm].after[k]
	switch {
	case math.IsNaN(before):
		return 0
	case math.IsNaN(after):
		return before
	}
	return min(before, after)
}

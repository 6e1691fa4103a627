package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// flow is how much the autoscaler's counters grew in each step, of all replicas.
type flow struct {
	known    int // the first moment with a sample: what was counted before is not the window's
	replicas []*replica
	present  []bool            // moments with a sample of any replica
	broken   []bool            // steps without a sample at either end, or in which a process started
	capacity map[Key][]float64 // growth by pool and model
	step     float64           // seconds
}

// replica is the counters of one replica. All counters of a process start together.
type replica struct {
	counters []*counter
	sampled  []bool // moments with a sample of its capacity
	// starts are the moments with the first sample of a process, and in how many steps its first values
	// were counted: none where they exceed what it can have counted since the last sample of any replica,
	// because a label was changed or Prometheus discovered it late.
	starts  map[int]int
	process []int // how many have started, by moment
}

// counter is one counter of a replica: of a place, or of the capacity.
type counter struct {
	key      Key
	place    Place
	capacity bool
	values   []float64
	growth   []float64
}

func newFlow(a query.Answers, g query.Grid) *flow {
	f := &flow{known: g.N + 1, present: make([]bool, g.N+1), broken: make([]bool, g.N+1), capacity: map[Key][]float64{}, step: g.Step.Seconds()}
	f.read(a, g)
	for k := 1; k <= g.N; k++ {
		f.broken[k] = !f.present[k] || !f.present[k-1]
	}
	for _, r := range f.replicas {
		f.start(r)
	}
	for _, r := range f.replicas {
		for _, c := range r.counters {
			c.growth = r.growth(c, f.known)
			if !c.capacity {
				continue
			}
			pm := c.key.poolModel()
			if f.capacity[pm] == nil {
				f.capacity[pm] = make([]float64, g.N+1)
			}
			accumulate(f.capacity[pm], c.growth, 1)
		}
	}
	return f
}

// read reads the counters. Those of places without a capacity, and places of a later version,
// are left out: they are in the capacity, as unknown, or count for nothing.
func (f *flow) read(a query.Answers, g query.Grid) {
	unanswered := a.Missing(g, query.Places)
	by := map[string]*replica{}
	id := func(ls prom.Labels) string { return ls.Get("instance") + "\xff" + ls.Get("pod") }
	for _, l := range a.Lines[query.Capacity] {
		r := by[id(l.Labels)]
		if r == nil {
			r = &replica{sampled: make([]bool, g.N+1), starts: map[int]int{}}
			by[id(l.Labels)] = r
			f.replicas = append(f.replicas, r)
		}
		c := &counter{key: poolModel(l.Labels), capacity: true, values: trusted(l, g)}
		for k, v := range c.values {
			switch {
			case unanswered[k]: // over a gap capacity and places are interpolated together
				c.values[k] = math.NaN()
			case !math.IsNaN(v):
				r.sampled[k], f.present[k], f.known = true, true, min(f.known, k)
			}
		}
		r.counters = append(r.counters, c)
	}
	f.replicas = slices.DeleteFunc(f.replicas, func(r *replica) bool { return !slices.Contains(r.sampled, true) })
	for _, l := range a.Lines[query.Places] {
		place, ok := parsePlace(l.Labels.Get(metric.LabelPlace))
		r := by[id(l.Labels)]
		if !ok || r == nil {
			continue
		}
		c := &counter{key: poolModel(l.Labels), place: place, values: Values(l, g)}
		if place.Allocated() {
			c.key.Tenant, c.key.Namespace = name(l.Labels.Get(metric.LabelTenant)), name(l.Labels.Get(a.Dialect.AutoscalerNamespace()))
		}
		for k := range c.values {
			if !r.sampled[k] {
				c.values[k] = math.NaN()
			}
		}
		r.counters = append(r.counters, c)
	}
}

// lookback is how long Prometheus repeats the last value of a series without a staleness
// marker.
const lookback = 5 * time.Minute

// trusted reads a counter without the values that Prometheus repeats before a gap, or
// before the counter restarts.
func trusted(l prom.Line, g query.Grid) []float64 {
	values := Values(l, g)
	most := int((lookback + g.Step - 1) / g.Step)
	for i := 1; i < len(values); i++ {
		if math.IsNaN(values[i-1]) || !math.IsNaN(values[i]) && values[i] >= values[i-1] {
			continue
		}
		for j := i - 1; j > 0 && j > i-1-most && values[j-1] == values[j]; j-- {
			values[j] = math.NaN()
		}
	}
	return values
}

// start finds the starts of a replica's processes: at its first sample, or where another replica led
// meanwhile; where a counter shrinks; and where one of a place is gone, which a process never drops.
// The capacity may have grown past its last value meanwhile.
func (f *flow) start(r *replica) {
	sums := make([]float64, len(r.sampled)) // of the capacity
	for _, c := range r.counters {
		last := math.NaN()
		for k, v := range c.values {
			gone := math.IsNaN(v)
			if !r.sampled[k] || gone && c.capacity {
				continue
			}
			if v < last || gone && !math.IsNaN(last) {
				r.starts[k] = 1
			}
			last = v
			if c.capacity {
				sums[k] += v
			}
		}
	}
	r.process = make([]int, len(r.sampled))
	last, processes := -1, 0
	for k, is := range r.sampled {
		if is && (last < 0 || slices.Contains(f.present[last+1:k], true)) {
			r.starts[k] = 1
		}
		if _, started := r.starts[k]; started {
			processes++
		}
		if r.process[k] = processes; is {
			last = k
		}
	}
	for k := range r.starts {
		f.broken[k] = true
		rate := math.NaN() // of the capacity right after
		for n := k + 1; n < len(sums) && n <= k+5; n++ {
			if r.sampled[n] && sums[n] >= sums[k] {
				rate = (sums[n] - sums[k]) / float64(n-k)
				break
			}
		}
		before := k - 1
		for before > 0 && !f.present[before] {
			before--
		}
		open := float64(k - before)
		switch {
		// Two steps more: replicas overlap while the Lease changes its holder.
		case sums[k] > rate*(open+2) && sums[k] > 2*f.step:
			r.starts[k] = 0
		case rate > 0:
			r.starts[k] = max(1, int(min(math.Ceil(sums[k]/rate-0.01), open)))
		}
	}
}

// growth is how much a counter of the replica grew in each step. Over a hole it is spread evenly,
// since the counter went on without being read.
func (r *replica) growth(c *counter, known int) []float64 {
	growth := make([]float64, len(c.values))
	last := -1
	for k, v := range c.values {
		if math.IsNaN(v) {
			continue
		}
		n, started := r.starts[k] // steps in which it was counted
		switch {
		case last < 0 && k <= known: // before the window
			n = 0
		case last >= 0 && r.process[last] == r.process[k]:
			n, v = k-last, v-c.values[last]
		case !started: // a new counter of a process that goes on
			for n = 1; k > n && !r.sampled[k-n]; n++ {
			}
		}
		for i := range n {
			growth[k-i] += max(0, v) / float64(n)
		}
		last = k
	}
	return growth
}

// expected is the growth to assume for the capacity of a pool and model at a broken step: no
// more than before and after the gap. A counter absent before the gap is not expected;
// one that does not return is expected until the window's end.
func (f *flow) expected(pm Key, k int) float64 {
	before, after := f.usual(pm, k, -1), f.usual(pm, k, 1)
	switch {
	case math.IsNaN(before):
		return 0
	case math.IsNaN(after):
		return before
	}
	return min(before, after)
}

// usual is the mean growth over the nearest steps on one side that are not broken, NaN for none. One
// step alone shows the beat of scrapes against the grid.
func (f *flow) usual(pm Key, k, way int) float64 {
	sum, n := 0.0, 0
	for k += way; k > 0 && k < len(f.broken) && n < 6; k += way {
		if !f.broken[k] {
			sum += f.capacity[pm][k]
			n++
		}
	}
	return sum / float64(n)
}

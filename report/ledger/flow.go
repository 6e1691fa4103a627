package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// flow is the growth of the autoscaler's counters in each step, summed over replicas.
type flow struct {
	known    int // first moment with a sample: what was counted earlier is not the window's
	replicas []*replica
	present  []bool            // moments with a sample of any replica
	broken   []bool            // steps without a sample at one end, or with the start of a process
	capacity map[Key][]float64 // growth by pool and model
	step     float64           // seconds
}

// replica holds the counters of one replica. All counters of a process start together.
type replica struct {
	counters []*counter
	sampled  []bool // moments with a sample of its capacity
	// starts maps the first sample of each process to the number of steps in which its first values were counted. It
	// is 0 if the values are larger than the process can have counted since the last sample of any replica: then a
	// label was changed, or Prometheus discovered the target late.
	starts  map[int]int
	process []int // number of processes started so far, by moment
}

// counter is one counter of a replica: the time of a place, or the capacity.
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

// read reads the counters. Places without a capacity count for nothing. Places of a later version are left
// out, so their time is unknown: it is part of the capacity.
func (f *flow) read(a query.Answers, g query.Grid) {
	unanswered := a.Missing(g, query.Places)
	by := map[string]*replica{}
	id := func(ls prom.Labels) string { return cmp.Or(ls.Get(a.Dialect.Replica), ls.Get(metric.LabelPod)) }
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
			case unanswered[k]: // over a gap, capacity and places are interpolated together
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

// lookback is how long Prometheus repeats the last value of a series that has no staleness marker.
const lookback = 5 * time.Minute

// trusted returns a counter's values without those that Prometheus only repeats before a gap or before a
// counter reset.
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

// start finds where a replica's processes start: at the first sample; after another replica has led
// meanwhile; where a counter shrinks; and where a place's counter disappears, which a process never drops.
// The capacity may be larger than before, so it alone does not show a restart.
func (f *flow) start(r *replica) {
	sums := make([]float64, len(r.sampled)) // sums of the capacity
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
		rate := math.NaN() // growth of the capacity right after the start
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
		// Two steps more, since replicas overlap while the Lease moves to another one.
		case sums[k] > rate*(open+2) && sums[k] > 2*f.step:
			r.starts[k] = 0
		case rate > 0:
			r.starts[k] = max(1, int(min(math.Ceil(sums[k]/rate-0.01), open)))
		}
	}
}

// growth returns how much a counter of the replica grew in each step. Growth over a gap is spread evenly,
// since the counter went on while it was not read.
func (r *replica) growth(c *counter, known int) []float64 {
	growth := make([]float64, len(c.values))
	last := -1
	for k, v := range c.values {
		if math.IsNaN(v) {
			continue
		}
		n, started := r.starts[k] // steps in which the value was counted
		switch {
		case last < 0 && k <= known: // before the window
			n = 0
		case last >= 0 && r.process[last] == r.process[k]:
			n, v = k-last, v-c.values[last]
		case !started: // a new counter in a running process
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

// expected is the assumed growth of a pool's capacity in a broken step: the smaller of the usual growth
// before and after. It is 0 for a counter that did not exist before. A counter that does not return is
// expected to go on until the window's end.
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

// usual is the mean growth of up to six unbroken steps before or after k, NaN if there is none. A single step
// would depend on how scrapes fall into the grid.
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

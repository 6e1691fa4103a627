package ledger

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// counter is one of the autoscaler's capacity counters, of one replica.
type counter struct {
	replica string
	pm      [2]string // pool and model
	values  []float64
	growth  []float64
	begun   []int
}

// autoscaler enters what the autoscaler's counters say. It returns in which steps
// they say anything, and which it has entered: where they are silent and seen says
// nothing either, what was there before and after is unknown.
func (b *book) autoscaler(a query.Answers, seen *exporterRecord) (counted, entered []bool) {
	g := b.l.Grid
	counted, entered = make([]bool, g.N+1), make([]bool, g.N+1)
	counters := read(a.Lines[query.Capacity], g)
	if len(counters) == 0 {
		return counted, entered
	}
	known := Known(a.Lines[query.Capacity], g)
	f := newFlow(counters, a.Lines[query.Places], g, known)
	for _, c := range counters {
		for k := 1; k <= g.N; k++ {
			if c.growth[k] > 0 {
				counted[k] = true
			}
		}
	}
	sums := b.places(a, f, known)
	for k := known + 1; k <= g.N; k++ {
		if !counted[k] && seen.has(k) {
			continue // the exporter's word is better than none
		}
		entered[k] = true
		for _, pm := range f.pms {
			there := f.capacity[pm][k]
			if f.broken[k] {
				if lost := f.expected(pm, k) - there; lost > 0.05*f.expected(pm, k) {
					there += lost
					b.l.Lost += lost
				}
			}
			if there == 0 && sums[pm][k] == 0 {
				continue
			}
			b.there(k, pm[0], pm[1], there)
			b.rest(k, pm, there-sums[pm][k])
		}
		counted[k] = counted[k] || !f.broken[k]
	}
	return counted, entered
}

// rest is what no place has claimed; it is unknown. Places read a moment later
// than the capacity may claim a little too much: that is as much capacity.
func (b *book) rest(k int, pm [2]string, seconds float64) {
	if seconds > 0 {
		if seconds < 1e-6*b.l.Grid.Step.Seconds() {
			return // a rounding
		}
		b.put(k, Key{Pool: pm[0], Model: pm[1]}, Unknown, seconds)
		return
	}
	b.l.Capacity -= seconds
	b.l.Over -= seconds
}

// places enters the counters of places and returns their sums by pool and model.
func (b *book) places(a query.Answers, f *flow, known int) map[[2]string][]float64 {
	g := b.l.Grid
	sums := map[[2]string][]float64{}
	for _, pm := range f.pms {
		sums[pm] = make([]float64, g.N+1)
	}
	for _, line := range a.Lines[query.Places] {
		place, ok := parsePlace(line.Labels.Get(metric.LabelPlace))
		if !ok {
			continue // a word of a later version: the capacity has it, as unknown
		}
		pm := poolModel(line.Labels)
		sum := sums[pm]
		if sum == nil {
			continue
		}
		key := Key{Pool: pm[0], Model: pm[1]}
		if place.Held() {
			key.Tenant = name(line.Labels.Get(metric.LabelTenant))
			key.Namespace = name(line.Labels.Get(a.Dialect.Holder()))
		}
		who := replica(line.Labels)
		values := Values(line, g)
		for k := range values {
			if f.silent[who] != nil && f.silent[who][k] {
				values[k] = math.NaN()
			}
		}
		growth, begun := growthOf(values, known, f.anew[who], f.taken(who))
		for _, k := range begun {
			if f.anew[who][k] || f.first[who] == k {
				f.settle(growth, replicaAt{who, k})
			} else {
				f.spread(growth, who, k)
			}
		}
		for k := known + 1; k <= g.N; k++ {
			if growth[k] > 0 {
				b.put(k, key, place, growth[k])
				sum[k] += growth[k]
			}
		}
	}
	return sums
}

func read(lines []prom.Line, g query.Grid) []counter {
	var all []counter
	for _, l := range lines {
		all = append(all, counter{replica: replica(l.Labels), pm: poolModel(l.Labels), values: honest(l, g)})
	}
	return all
}

// lookback is how long Prometheus repeats the last value of a series that nobody
// has marked as ended.
const lookback = 5 * time.Minute

// honest reads a counter. Values repeated before a hole, or before the counter began
// anew, are Prometheus' and not the counter's: they are left out.
func honest(l prom.Line, g query.Grid) []float64 {
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

func replica(ls prom.Labels) string { return ls.Get("instance") + "\xff" + ls.Get("pod") }

func poolModel(ls prom.Labels) [2]string {
	return [2]string{name(ls.Get(metric.LabelPool)), modelName(ls.Get(metric.LabelModel))}
}

// name is a label's value, empty for the word that stands for nobody.
func name(v string) string {
	if v == metric.Nobody {
		return ""
	}
	return v
}

func modelName(label string) string {
	if label == metric.Other || label == metric.Nobody || label == "" {
		return name(label)
	}
	return gpu.ProductName(label)
}

// flow is the capacity counters of all replicas, added up.
type flow struct {
	pms      [][2]string
	capacity map[[2]string][]float64
	broken   []bool // steps in which a counter began anew or nobody was read
	baseline map[replicaAt]bool
	// anew are the steps in which a replica began anew, first that in which it was
	// first read, silent those in which it was not.
	anew   map[string]map[int]bool
	first  map[string]int
	silent map[string][]bool
	others map[string][]bool // see taken
	back   map[replicaAt]int // over how many steps to spread what a replica begins with
	step   float64
	usual  map[[2]string]neighbours
}

// replicaAt is a replica that appears at a step with more than it can have counted
// since anybody was read last: it began before.
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
	f.betray(places, g)
	for i := range counters {
		c := &counters[i]
		for k := range c.values {
			if f.silent[c.replica][k] {
				c.values[k] = math.NaN()
			}
		}
		c.growth, c.begun = growthOf(c.values, known, f.anew[c.replica], f.taken(c.replica))
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
			if !f.anew[c.replica][k] && f.first[c.replica] != k {
				f.spread(c.growth, c.replica, k) // a new pool of a process that goes on
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

// lives finds out when each replica's process was read, and when it began: all its
// counters begin together.
func (f *flow) lives(counters []counter) {
	f.anew, f.first, f.silent, f.others = map[string]map[int]bool{}, map[string]int{}, map[string][]bool{}, map[string][]bool{}
	for _, c := range counters {
		if f.silent[c.replica] == nil {
			f.anew[c.replica], f.silent[c.replica] = map[int]bool{}, make([]bool, len(c.values))
			for k := range c.values {
				f.silent[c.replica][k] = true
			}
			f.first[c.replica] = len(c.values)
		}
		last := -1
		for k, v := range c.values {
			if math.IsNaN(v) {
				continue
			}
			if last >= 0 && v < c.values[last] {
				f.anew[c.replica][k] = true
			}
			f.silent[c.replica][k] = false
			f.first[c.replica] = min(f.first[c.replica], k)
			last = k
		}
	}
}

// betray finds the new beginnings that the capacity hides, having grown past what it
// was before: one of the places has not.
func (f *flow) betray(places []prom.Line, g query.Grid) {
	for _, l := range places {
		who := replica(l.Labels)
		last := math.NaN()
		for k, v := range Values(l, g) {
			if f.silent[who] == nil || f.silent[who][k] {
				continue
			}
			// A process never takes a counter back: one that is gone was another's.
			if v < last || math.IsNaN(v) && !math.IsNaN(last) {
				f.anew[who][k] = true
			}
			last = v
		}
	}
}

// taken are the steps in which another replica was read, or in which nobody was and
// another has gone on from before to after: of two only one leads.
func (f *flow) taken(replica string) []bool {
	if t, ok := f.others[replica]; ok {
		return t
	}
	t := make([]bool, len(f.broken))
	for who, silent := range f.silent {
		for k := range t {
			t[k] = t[k] || who != replica && !silent[k]
		}
	}
	for _, h := range f.holes() {
		for who, silent := range f.silent {
			if who == replica || silent[h[0]] || silent[h[1]] || between(f.anew[who], h[0], h[1]) {
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
		quiet := true
		for _, silent := range f.silent {
			quiet = quiet && silent[k]
		}
		if quiet {
			continue
		}
		if last >= 0 && k > last+1 {
			all = append(all, [2]int{last, k})
		}
		last = k
	}
	return all
}

// spread is for a counter that appears while its process goes on: it may have begun
// at any time since the process was read last.
func (f *flow) spread(growth []float64, replica string, k int) {
	begin := k
	for begin > 1 && f.silent[replica][begin-1] {
		begin--
	}
	each := growth[k] / float64(k-begin+1)
	for i := begin; i <= k; i++ {
		growth[i] = each
	}
}

// rebase finds replicas that appear with a value they cannot have counted within
// the time that nobody has accounted for: a label was changed, or Prometheus has
// found them late. Such a value is where they begin, not what they add.
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
			// Two steps more: replicas overlap while the lease changes hands.
			if most := rate * float64(k-before+2); c.values[k] > most && c.values[k] > 2*f.step {
				f.baseline[at] = true
			}
			if rate > 0 {
				f.back[at] = max(f.back[at], min(int(math.Ceil(c.values[k]/rate-0.01)), k-before))
			}
		}
	}
}

// settle corrects what a counter grew by in the step in which it began: nothing if
// that was before, else spread over the time before that nobody read.
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

// neighbours is what a counter grew by in a step, on average over the nearest whole
// ones before and after each; NaN for none.
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

// recent is the last few of a row of numbers: of one step alone the scrapes' beat
// against the grid would be seen.
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

// expected is what the counter of a pool and model should have grown by at step k:
// no more than before the break and after it. What has not been there before is
// not expected, and what does not come back is until the window's end.
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

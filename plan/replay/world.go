package replay

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// job is a pod of the replay, and what it requests.
type job struct {
	Pod
	profile   mig.Profile // zero for whole GPUs
	evictable bool
	members   int // of its gang
}

// gpus is what a job has allocated, in GPUs.
func (t *trace) gpus(j *job) float64 {
	if j.profile.Compute == 0 {
		return float64(max(j.GPUs, 1)) // a whole one in place of an instance
	}
	return float64(j.profile.Compute) / float64(t.table.ComputeSlices())
}

// trace is what is played with one seed.
type trace struct {
	options Options
	table   *mig.Table
	model   gpu.Model
	jobs    []job // by time of creation
	// left are the pods that are not played, by reason.
	left map[string]int
}

// newTrace checks the options, selects the pods and turns requests for parts of GPUs into
// requests for MIG instances.
func newTrace(pods []Pod, o Options) (*trace, error) {
	table, ok := mig.ForModel(o.Model)
	model, known := gpu.ParseProduct(o.Model)
	if !ok || !known {
		return nil, fmt.Errorf("%q: want a product with MIG, such as A100-80GB or H100-80GB", o.Model)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &trace{options: o, table: table, model: model, left: map[string]int{}}
	if err := t.choose(slices.Clone(pods)); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(o.Seed, 1))
	chosen := t.jobs
	t.jobs = nil
	names, members := map[string]int{}, map[string]int{}
	late := map[string]time.Duration{} // delays of the copies of gangs, whose members stay together
	for _, j := range chosen {
		j.evictable = j.Replica || o.Evictable > 0 && random.Float64() < o.Evictable
		size := 1
		if j.Gang == "" && !j.Replica && j.profile.Compute == 0 && o.Gangs > 0 && random.Float64() < o.Gangs {
			size, j.Gang = o.GangSize, "pods like "+j.Name
		}
		for c := range o.Copies {
			k := j
			if c > 0 {
				after := time.Duration(random.Int64N(int64(time.Hour)))
				if j.Gang != "" {
					k.Gang = fmt.Sprintf("%s, copy %d", j.Gang, c)
					if at, ok := late[k.Gang]; ok {
						after = at
					}
					late[k.Gang] = after
				}
				k.Created += after
			}
			for range size {
				k.Name = unique(names, j.Name)
				if k.Gang != "" {
					members[k.Gang]++
				}
				t.jobs = append(t.jobs, k)
			}
		}
	}
	if len(t.jobs) == 0 {
		return nil, fmt.Errorf("the trace has no pod with GPUs to play; left out: %s", leftText(t.left))
	}
	for i := range t.jobs {
		t.jobs[i].members = members[t.jobs[i].Gang]
	}
	slices.SortStableFunc(t.jobs, func(a, b job) int { return cmp.Compare(a.Created, b.Created) })
	return t, nil
}

// unique is a name, with a number where it is taken.
func unique(taken map[string]int, name string) string {
	one := name
	for ; taken[one] > 0; taken[name]++ {
		one = fmt.Sprintf("%s-%d", name, taken[name])
	}
	taken[one] = 1
	return one
}

// choose turns the pods that are played into jobs, and counts the others by reason. The
// times of jobs count from the beginning of the part that is played.
func (t *trace) choose(pods []Pod) error {
	first := time.Duration(math.MaxInt64)
	for _, p := range pods {
		if !p.Replica { // replicas begin with the part that is played
			first = min(first, p.Created)
		}
	}
	length := days(t.options.Days)
	why, broken := make([]string, len(pods)), map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if !p.Replica {
			p.Created -= first + days(t.options.From)
		}
		why[i] = t.leftOut(p, length)
		if p.Gang != "" && why[i] != "" && why[i] != noGPU && why[i] != neverRan {
			broken[p.Gang] = true
		}
	}
	for i, p := range pods {
		if why[i] == "" && broken[p.Gang] {
			why[i] = "in a gang with a pod that is left out"
		}
		if why[i] != "" {
			t.left[why[i]]++
			continue
		}
		if length > 0 {
			p.Run = min(p.Run, length-p.Created)
		}
		if end := p.Created + p.Run; end > days(mostDays) {
			return fmt.Errorf("pod %s ends %.0f days after the beginning, more than %d: want all times in seconds since the same moment, or --from and --days", p.Name, end.Hours()/24, mostDays)
		}
		j := job{Pod: p}
		if p.Profile != "" {
			j.profile, _ = t.table.Exact(p.Profile)
		} else if p.Milli < 1000 {
			j.profile = t.smallest(partOf(p.Milli, t.table.ComputeSlices()), partOf(p.Milli, t.table.MemorySlices()), t.table.Profiles())
		}
		t.jobs = append(t.jobs, j)
	}
	return nil
}

func days(n float64) time.Duration { return time.Duration(n * 24 * float64(time.Hour)) }

// A gang runs without the pods that are left out for these reasons, since it did so in the
// trace.
const (
	noGPU    = "no GPU"
	neverRan = "never ran"
)

// leftOut is why a pod is not played, empty where it is.
func (t *trace) leftOut(p *Pod, length time.Duration) string {
	_, known := t.table.Exact(p.Profile)
	switch o := t.options; {
	case p.Created < 0 || length > 0 && p.Created >= length:
		return "outside the part that is played"
	case p.Unplayed != "":
		return p.Unplayed
	case p.Profile != "" && !known:
		return "a MIG profile that the GPUs do not have"
	case p.GPUs == 0 && p.Profile == "":
		return noGPU
	case p.Run == 0:
		return neverRan
	case p.GPUs > o.largest():
		return "more GPUs than a node has"
	case p.CPU > o.CPU || p.Memory > o.Memory:
		return "more CPU or memory than a node has"
	}
	return ""
}

// partOf is thousandths of a GPU in slices, rounded up.
func partOf(milli, of int) int { return (milli*of + 999) / 1000 }

// smallest returns the profile with the fewest slices that has at least these compute and
// memory slices; the zero Profile where only a whole GPU has them.
func (t *trace) smallest(compute, memory int, of []mig.Profile) mig.Profile {
	var best mig.Profile
	for _, p := range of {
		if p.Compute < compute || p.Memory < memory || p.Attrs != 0 || p.Compute == t.table.ComputeSlices() {
			continue
		}
		if best.Compute == 0 || p.Compute+p.Memory < best.Compute+best.Memory {
			best = p
		}
	}
	return best
}

// bound is the least GPU-hours that serve all jobs, whatever the policy.
//
// A GPU is at any moment either whole, with one pod at most, or in MIG mode,
// where its instances have no more compute and no more memory slices than it has.
// So the GPUs paid for at a moment are at least the whole ones allocated plus
// the compute slices allocated over those of a GPU, and the same for memory. The
// integral over time of what is allocated does not depend on when a pod starts: it
// is what the pod requests, times how long it runs. A pod that is evicted starts
// again and takes more. Replicas do not count: they leave at a fixed time, so one
// that is pending runs less.
func (t *trace) bound() float64 {
	var l load
	for _, j := range t.jobs {
		if !j.Replica {
			l.add(j, j.Run.Hours())
		}
	}
	return t.least(l)
}

// load is what jobs request: whole GPUs, compute and memory slices of instances, thousandths
// of a core, MiB.
type load struct{ whole, compute, memory, cpu, memoryMi float64 }

// add adds what a job requests, multiplied by times.
func (l *load) add(j job, times float64) {
	if j.profile.Compute == 0 {
		l.whole += float64(j.GPUs) * times
	}
	l.compute += float64(j.profile.Compute) * times
	l.memory += float64(j.profile.Memory) * times
	l.cpu += float64(j.CPU) * times
	l.memoryMi += float64(j.Memory) * times
}

// least is the fewest GPUs that have a load's GPUs and slices.
func (t *trace) least(l load) float64 {
	return l.whole + max(l.compute/float64(t.table.ComputeSlices()), l.memory/float64(t.table.MemorySlices()))
}

// boundAtOnce is the least GPU-hours with which every job runs from its arrival on.
//
// At any moment there are whole nodes. They have the GPUs that are requested, counted as
// in bound, and the CPU and the memory. Nodes of several sizes together have a multiple of
// the sizes' greatest common divisor. No placement can be perfect all the time, so the
// bound may be out of reach.
func (t *trace) boundAtOnce() float64 {
	type change struct {
		at   time.Duration
		j    job
		sign float64
	}
	var all []change
	for _, j := range t.jobs {
		all = append(all, change{j.Created, j, 1}, change{j.Created + j.Run, j, -1})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	divisor := 0
	for _, n := range t.options.GPUs {
		for divisor, n = n, divisor; n > 0; {
			divisor, n = n, divisor%n
		}
	}
	unit, largest := float64(divisor), float64(t.options.largest())
	var now load
	var since time.Duration
	hours := 0.0
	for _, c := range all {
		gpus := max(t.least(now), now.cpu/float64(t.options.CPU)*largest, now.memoryMi/float64(t.options.Memory)*largest)
		hours += math.Ceil(gpus/unit-1e-9) * unit * (c.at - since).Hours()
		since = c.at
		now.add(c.j, c.sign)
	}
	return hours
}

// pod returns a job as a pod of the world, when it arrives.
func (t *trace) pod(j job, now time.Time) plan.Pod {
	p := plan.Pod{Namespace: "trace", Name: j.Name, Owner: "Job/" + j.Name, Created: now, PendingSince: now,
		CPUMilli: int64(j.CPU), MemoryMi: int64(j.Memory), Evictable: j.evictable}
	if j.Replica {
		p.Owner = "Deployment/replicas" // whose pods have no work to repeat
	}
	if j.Gang != "" {
		p.Gang, p.GangMin = gangOf(j), j.members
	}
	if j.profile.Compute == 0 {
		p.Demand = demand.Demand{GPUs: max(j.GPUs, 1), Vendor: "nvidia"}
		return p
	}
	name, _ := mig.ParseName(t.table.Name(j.profile)) // a table's names always parse
	p.Demand = demand.Demand{MIG: []demand.Instances{demand.Named(name, 1)}}
	return p
}

func gangOf(j job) string { return "trace/" + j.Gang }

// pools returns a pool for each size of nodes. Their GPUs boot with a layout, or whole where
// boot is empty.
func (t *trace) pools(name string, boot mig.Layout) []plan.Pool {
	o := t.options
	price := o.Price
	if len(boot) > 0 {
		price = cmp.Or(o.MIGPrice, o.Price)
	}
	var pools []plan.Pool
	for _, size := range o.GPUs {
		name := name
		if len(o.GPUs) > 1 {
			name = fmt.Sprintf("%s-%d", name, size)
		}
		p := plan.Pool{Name: name, Max: o.MaxNodes, PricePerHour: price * float64(size), ReadyAfter: o.Boot, IdleAfter: cmp.Or(o.IdleAfter, plan.DefaultIdleAfter), IdleAdapts: o.IdleAfter == 0,
			Spot: o.Interruptions > 0, InterruptionsPerHour: o.Interruptions,
			Template: plan.Template{Labels: map[string]string{"pool": name}, CPUMilli: int64(o.CPU * size / o.largest()), MemoryMi: int64(o.Memory * size / o.largest())}}
		for i := range size {
			g := plan.GPU{Device: gpu.Device{Index: i, Model: t.model}, MIG: len(boot) > 0, AllocationKnown: true}
			for _, at := range boot {
				g.Instances = append(g.Instances, plan.Instance{Placement: at, Placed: true})
			}
			p.Template.GPUs = append(p.Template.GPUs, g)
		}
		pools = append(pools, p)
	}
	return pools
}

// registers is the time from a node's registration until pods run on it, while its device plugin starts: an
// assumption.
const registers = 30 * time.Second

// world returns a world without nodes. Chance is drawn from the seed.
func (t *trace) world(pools []plan.Pool) *sim.World {
	w := &sim.World{State: plan.Snapshot{Now: began, Pools: pools}, Score: t.score, Registers: min(registers, t.options.Boot/2)}
	random := rand.New(rand.NewPCG(t.options.Seed, 2))
	if share := t.options.FailBoot; share > 0 {
		w.Lost = func() bool { return random.Float64() < share }
	}
	if rate := t.options.Interruptions; rate > 0 {
		w.Interrupted = func() time.Duration {
			hours := min(random.ExpFloat64()/rate, 24*365) // longer than any node lives here
			return time.Duration(hours * float64(time.Hour))
		}
	}
	return w
}

// softTaint is what a soft taint takes from score. kube-scheduler weighs
// TaintToleration three times as much as the resources, which are up to 200 in score.
const softTaint = 600

// score is kube-scheduler's LeastAllocated over CPU and memory, its default, or
// MostAllocated.
func (t *trace) score(p *plan.Pod, n *plan.Node, cpu, memory int64) int64 {
	used := (cpu+p.CPUMilli)*100/n.CPUMilli + (memory+p.MemoryMi)*100/n.MemoryMi
	if !t.options.MostAllocated {
		used = -used
	}
	if n.SoftTainted {
		used -= softTaint
	}
	return used
}

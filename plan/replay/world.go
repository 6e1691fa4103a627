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

// Options are the assumptions of a replay.
type Options struct {
	Model       string  // of every GPU: "A100-80GB"
	GPUs        []int   // of the nodes that can be had, one size for each; each of its own pools
	CPU, Memory int     // of the largest: thousandths of a core, MiB; smaller ones have as much for each GPU
	MaxNodes    int     // of each pool
	Price       float64 // of a GPU for an hour
	MIGPrice    float64 // the same where the pool has MIG layouts; 0 for Price
	Boot        time.Duration
	Repartition time.Duration
	Interval    time.Duration // between two plans, at least
	From        time.Duration // the part of the trace that is played
	Length      time.Duration // 0 for all
	Copies      int           // of each pod, the further ones up to an hour later
	Seed        uint64
	// Seeds is how many are played; 0 for ten where chance enters, else one.
	Seeds                int
	MostAllocated, Agent bool
	Chance
	// Progress, where set, is called once for each simulated day.
	Progress func(policy string, seed uint64, day int)
	// Processor is the processor time used so far; nil for not measured.
	Processor func() time.Duration
}

// Chance is what differs between seeds, besides the times of copies.
type Chance struct {
	Gangs           float64 // share of the pods with whole GPUs that become gangs
	GangSize        int     // pods of such a gang, each like the one it was
	Evictable       float64 // share of the pods that may be evicted, and then begin again
	Interruptions   float64 // of a node in an hour, as of spot nodes
	FailRepartition float64 // share of repartitions that fail
	FailBoot        float64 // share of requested nodes that never register
}

func (c Chance) any() bool {
	return c.Gangs > 0 || c.Evictable > 0 || c.Interruptions > 0 || c.FailRepartition > 0 || c.FailBoot > 0
}

// check returns what is wrong with the options.
func (o *Options) check() error {
	for _, share := range []float64{o.Gangs, o.Evictable, o.FailRepartition, o.FailBoot} {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("%v: want a share, 0 … 1", share)
		}
	}
	for _, n := range o.GPUs {
		if n < 1 || n > 64 {
			return fmt.Errorf("%d GPUs of a node: want 1 … 64", n)
		}
	}
	switch {
	case len(o.GPUs) < 1 || len(o.GPUs) > 8:
		return fmt.Errorf("%d sizes of nodes: want 1 … 8", len(o.GPUs))
	case o.CPU < 1 || o.Memory < 1 || o.MaxNodes < 1 || o.MaxNodes > 100000 || o.Copies < 1 || o.Copies > 1000:
		return fmt.Errorf("want some CPU and memory, 1 … 100000 nodes and 1 … 1000 copies")
	case o.Interval < time.Second || o.Boot < 0 || o.Repartition < 0 || o.From < 0 || o.Length < 0 || !(o.Price >= 0) || !(o.MIGPrice >= 0):
		return fmt.Errorf("want an interval of at least 1s, and nothing below 0")
	case !(o.Interruptions >= 0 && o.Interruptions <= 60):
		return fmt.Errorf("%v interruptions of a node in an hour: want 0 … 60", o.Interruptions)
	case o.Gangs > 0 && (o.GangSize < 2 || o.GangSize > 64):
		return fmt.Errorf("%d pods of a gang: want 2 … 64", o.GangSize)
	case o.Seeds < 0 || o.Seeds > 1000:
		return fmt.Errorf("%d seeds: want 1 … 1000", o.Seeds)
	}
	return nil
}

// seeds is how many are played.
func (o *Options) seeds() int {
	if o.Seeds > 0 {
		return o.Seeds
	}
	if o.Copies > 1 || o.any() {
		return 10
	}
	return 1
}

func (o *Options) largest() int { return slices.Max(o.GPUs) }

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

// newTrace checks the options, selects the pods and makes parts of GPUs MIG
// instances.
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
	random := rand.New(rand.NewPCG(o.Seed, 1))
	members := map[string]int{}
	late := map[string]time.Duration{} // of the copies of gangs, which stay together
	for _, p := range pods {
		if p.Created < o.From || o.Length > 0 && p.Created >= o.From+o.Length {
			t.left["outside the part that is played"]++
			continue
		}
		j := job{Pod: p}
		if p.Profile != "" {
			j.profile, _ = table.Exact(p.Profile)
			j.Milli = max(partOf(j.profile.Compute, table.ComputeSlices()), partOf(j.profile.Memory, table.MemorySlices()))
		} else if p.Milli < 1000 {
			j.profile = t.smallest(p.Milli, table.Profiles())
		}
		if why := t.leftOut(j); why != "" {
			t.left[why]++
			continue
		}
		j.Created -= o.From
		if o.Length > 0 {
			j.Run = min(j.Run, o.Length-j.Created)
		}
		j.evictable = p.Replica || o.Evictable > 0 && random.Float64() < o.Evictable
		size := 1
		if p.Gang == "" && !p.Replica && j.profile.Compute == 0 && o.Gangs > 0 && random.Float64() < o.Gangs {
			size, j.Gang = o.GangSize, p.Name
		}
		for c := range o.Copies {
			k := j
			if c > 0 {
				k.Name = fmt.Sprintf("%s-%d", j.Name, c)
				after := time.Duration(random.Int64N(int64(time.Hour)))
				if j.Gang != "" {
					k.Gang = fmt.Sprintf("%s-%d", j.Gang, c)
					if at, ok := late[k.Gang]; ok {
						after = at
					}
					late[k.Gang] = after
				}
				k.Created += after
			}
			for m := range size {
				one := k
				if m > 0 {
					one.Name = fmt.Sprintf("%s.%d", k.Name, m)
				}
				if one.Gang != "" {
					members[one.Gang]++
				}
				t.jobs = append(t.jobs, one)
			}
		}
	}
	if len(t.jobs) == 0 {
		return nil, fmt.Errorf("no pod with GPUs is left to play: %s", leftText(t.left))
	}
	for i := range t.jobs {
		t.jobs[i].members = members[t.jobs[i].Gang]
	}
	slices.SortStableFunc(t.jobs, func(a, b job) int { return cmp.Compare(a.Created, b.Created) })
	return t, nil
}

// leftOut is why a pod is not played, empty where it is.
func (t *trace) leftOut(j job) string {
	switch o := t.options; {
	case j.Unplayed != "":
		return j.Unplayed
	case j.Profile != "" && j.profile.Compute == 0:
		return "a MIG profile that the GPUs do not have"
	case j.GPUs == 0 && j.Profile == "":
		return "no GPU"
	case j.Run == 0:
		return "never ran"
	case j.GPUs > o.largest():
		return "more GPUs than a node has"
	case j.CPU > o.CPU || j.Memory > o.Memory:
		return "more CPU or memory than a node has"
	}
	return ""
}

// partOf is slices of all of a GPU, in thousandths, rounded up.
func partOf(slices, of int) int { return (slices*1000 + of - 1) / of }

// smallest is the profile with the least slices of which both the compute and
// the memory are at least this part of a GPU; the zero Profile where only a whole
// GPU is.
func (t *trace) smallest(milli int, of []mig.Profile) mig.Profile {
	var best mig.Profile
	for _, p := range of {
		fits := p.Compute*1000 >= milli*t.table.ComputeSlices() && p.Memory*1000 >= milli*t.table.MemorySlices()
		if !fits || p.Attrs != 0 || p.Compute == t.table.ComputeSlices() {
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
// again and takes more. Replicas, which leave at a time of their own, do not count:
// one that has to wait runs less.
func (t *trace) bound() float64 {
	var whole, compute, memory float64
	for _, j := range t.jobs {
		if j.Replica {
			continue
		}
		if j.profile.Compute == 0 {
			whole += float64(j.GPUs) * j.Run.Hours()
			continue
		}
		compute += float64(j.profile.Compute) * j.Run.Hours()
		memory += float64(j.profile.Memory) * j.Run.Hours()
	}
	return whole + max(compute/float64(t.table.ComputeSlices()), memory/float64(t.table.MemorySlices()))
}

// boundAtOnce is the least GPU-hours with which every job runs from its arrival on:
// at any moment there are whole nodes, and these have the GPUs, as bound counts them,
// the CPU and the memory that are requested; nodes of several sizes have together a
// multiple of the sizes' greatest common divisor. No placement can be perfect all
// the time, so it may be out of reach.
func (t *trace) boundAtOnce() float64 {
	type change struct {
		at                                    time.Duration
		whole, compute, memory, cpu, memoryMi float64
	}
	var all []change
	for _, j := range t.jobs {
		c := change{at: j.Created, whole: float64(j.GPUs), cpu: float64(j.CPU), memoryMi: float64(j.Memory)}
		if j.profile.Compute > 0 {
			c.whole, c.compute, c.memory = 0, float64(j.profile.Compute), float64(j.profile.Memory)
		}
		all = append(all, c, change{j.Created + j.Run, -c.whole, -c.compute, -c.memory, -c.cpu, -c.memoryMi})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	divisor := 0
	for _, n := range t.options.GPUs {
		for divisor, n = n, divisor; n > 0; {
			divisor, n = n, divisor%n
		}
	}
	unit, largest := float64(divisor), float64(t.options.largest())
	var now change
	hours := 0.0
	for _, c := range all {
		gpus := now.whole + max(now.compute/float64(t.table.ComputeSlices()), now.memory/float64(t.table.MemorySlices()))
		gpus = max(gpus, now.cpu/float64(t.options.CPU)*largest, now.memoryMi/float64(t.options.Memory)*largest)
		hours += math.Ceil(gpus/unit-1e-9) * unit * (c.at - now.at).Hours()
		now = change{c.at, now.whole + c.whole, now.compute + c.compute, now.memory + c.memory, now.cpu + c.cpu, now.memoryMi + c.memoryMi}
	}
	return hours
}

// pod is a job as the world has it when it arrives.
func (t *trace) pod(j job, now time.Time) plan.Pod {
	p := plan.Pod{Namespace: "trace", Name: j.Name, Owner: "Job/" + j.Name, Created: now, PendingSince: now,
		CPUMilli: int64(j.CPU), MemoryMi: int64(j.Memory), Evictable: j.evictable}
	if j.Replica {
		p.Owner = "Deployment/replicas" // whose pods have no work to repeat
	}
	if j.Gang != "" {
		p.Gang, p.GangMin = "trace/"+j.Gang, j.members
	}
	if j.profile.Compute == 0 {
		p.Demand = demand.Demand{GPUs: max(j.GPUs, 1), Vendor: "nvidia"}
		return p
	}
	name := t.table.Name(j.profile)
	in := demand.Instances{Name: name, Profile: mig.Profile{Compute: j.profile.Compute}, Count: 1}
	if parsed, err := mig.ParseName(name); err == nil {
		in.MemoryGB = parsed.GB
	}
	p.Demand = demand.Demand{MIG: []demand.Instances{in}}
	return p
}

// pools are one group of nodes for each size, whose GPUs boot with a layout; whole
// for none.
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
		p := plan.Pool{Name: name, Max: o.MaxNodes, PricePerHour: price * float64(size), ReadyAfter: o.Boot, IdleAfter: 10 * time.Minute,
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

// world is a world without nodes. Chance is drawn from the seed.
func (t *trace) world(pools []plan.Pool) *sim.World {
	w := &sim.World{State: plan.Snapshot{Now: time.Unix(0, 0).UTC(), Pools: pools}, Score: t.score}
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

// softTaint is what a soft taint takes from score: kube-scheduler weighs
// TaintToleration three times as much as the resources, which score counts twice.
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

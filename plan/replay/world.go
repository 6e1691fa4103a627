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
	Model                string // of every GPU: "A100-80GB"
	GPUs, CPU, Memory    int    // of a node: GPUs, thousandths of a core, MiB
	MaxNodes             int    // of each pool
	Price                float64
	Boot, Repartition    time.Duration
	Interval             time.Duration // between two plans, at least
	From, Length         time.Duration // the part of the trace that is played; Length 0 for all
	Copies               int           // of each pod, the further ones up to an hour later
	Seed                 uint64
	MostAllocated, Agent bool
	// Progress, where set, is called once for each simulated day.
	Progress func(policy string, day int)
	// Processor is the processor time used so far; nil for not measured.
	Processor func() time.Duration
}

// job is a pod of the replay, and what it requests.
type job struct {
	Pod
	profile mig.Profile // zero for whole GPUs
}

// Trace is what is played.
type Trace struct {
	options Options
	table   *mig.Table
	model   gpu.Model
	jobs    []job // by time of creation
	// Left are the pods that are not played, by reason.
	Left map[string]int
}

// NewTrace checks the options, selects the pods and makes parts of GPUs MIG
// instances.
func NewTrace(pods []Pod, o Options) (*Trace, error) {
	table, ok := mig.ForModel(o.Model)
	model, known := gpu.ParseProduct(o.Model)
	switch {
	case !ok || !known:
		return nil, fmt.Errorf("%q: want a product with MIG, such as A100-80GB or H100-80GB", o.Model)
	case o.GPUs < 1 || o.GPUs > 64 || o.CPU < 1 || o.Memory < 1 || o.MaxNodes < 1 || o.MaxNodes > 100000 || o.Copies < 1 || o.Copies > 1000:
		return nil, fmt.Errorf("want 1 … 64 GPUs, some CPU and memory, 1 … 100000 nodes and 1 … 1000 copies")
	case o.Interval < time.Second || o.Boot < 0 || o.Repartition < 0 || o.From < 0 || o.Length < 0 || o.Price < 0:
		return nil, fmt.Errorf("want an interval of at least 1s, and nothing below 0")
	}
	t := &Trace{options: o, table: table, model: model, Left: map[string]int{}}
	random := rand.New(rand.NewPCG(o.Seed, 1))
	for _, p := range pods {
		if p.Created < o.From || o.Length > 0 && p.Created >= o.From+o.Length {
			t.Left["outside the part that is played"]++
			continue
		}
		if why := t.leftOut(p); why != "" {
			t.Left[why]++
			continue
		}
		p.Created -= o.From
		j := job{Pod: p}
		if p.Milli < 1000 {
			j.profile = t.smallest(p.Milli, table.Profiles())
		}
		if o.Length > 0 {
			j.Run = min(j.Run, o.Length-j.Created)
		}
		for c := range o.Copies {
			k := j
			if c > 0 {
				k.Name = fmt.Sprintf("%s-%d", j.Name, c)
				k.Created += time.Duration(random.Int64N(int64(time.Hour)))
			}
			t.jobs = append(t.jobs, k)
		}
	}
	slices.SortStableFunc(t.jobs, func(a, b job) int { return int(a.Created - b.Created) })
	if len(t.jobs) == 0 {
		return nil, fmt.Errorf("no pod with GPUs is left to play: %s", leftText(t.Left))
	}
	return t, nil
}

// leftOut is why a pod is not played, empty where it is.
func (t *Trace) leftOut(p Pod) string {
	switch o := t.options; {
	case p.GPUs == 0:
		return "no GPU"
	case p.Run == 0:
		return "never ran"
	case p.GPUs > o.GPUs:
		return "more GPUs than a node has"
	case p.CPU > o.CPU || p.Memory > o.Memory:
		return "more CPU or memory than a node has"
	}
	return ""
}

// smallest is the profile with the least slices of which both the compute and
// the memory are at least this part of a GPU; the zero Profile where only a whole
// GPU is.
func (t *Trace) smallest(milli int, of []mig.Profile) mig.Profile {
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
// again and takes more.
func (t *Trace) bound() float64 {
	var whole, compute, memory float64
	for _, j := range t.jobs {
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
// the CPU and the memory that are requested. No pod is moved and no placement can be
// perfect all the time, so it may be out of reach.
func (t *Trace) boundAtOnce() float64 {
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
	var now change
	hours := 0.0
	for _, c := range all {
		gpus := now.whole + max(now.compute/float64(t.table.ComputeSlices()), now.memory/float64(t.table.MemorySlices()))
		nodes := max(gpus/float64(t.options.GPUs), now.cpu/float64(t.options.CPU), now.memoryMi/float64(t.options.Memory))
		hours += math.Ceil(nodes-1e-9) * float64(t.options.GPUs) * (c.at - now.at).Hours()
		now = change{c.at, now.whole + c.whole, now.compute + c.compute, now.memory + c.memory, now.cpu + c.cpu, now.memoryMi + c.memoryMi}
	}
	return hours
}

// pod is a job as the world has it when it arrives.
func (t *Trace) pod(j job, now time.Time) plan.Pod {
	p := plan.Pod{Namespace: "trace", Name: j.Name, Owner: "Job/" + j.Name, Created: now, PendingSince: now,
		CPUMilli: int64(j.CPU), MemoryMi: int64(j.Memory)}
	if j.profile.Compute == 0 {
		p.Demand = demand.Demand{GPUs: j.GPUs, Vendor: "nvidia"}
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

// pool is a group of nodes whose GPUs boot with a layout; whole for none.
func (t *Trace) pool(name string, boot mig.Layout) plan.Pool {
	o := t.options
	p := plan.Pool{Name: name, Max: o.MaxNodes, PricePerHour: o.Price * float64(o.GPUs), ReadyAfter: o.Boot, IdleAfter: 10 * time.Minute,
		Template: plan.Template{Labels: map[string]string{"pool": name}, CPUMilli: int64(o.CPU), MemoryMi: int64(o.Memory)}}
	for i := range o.GPUs {
		g := plan.GPU{Device: gpu.Device{Index: i, Model: t.model}, MIG: len(boot) > 0, AllocationKnown: true}
		for _, at := range boot {
			g.Instances = append(g.Instances, plan.Instance{Placement: at, Placed: true})
		}
		p.Template.GPUs = append(p.Template.GPUs, g)
	}
	return p
}

// world is a world without nodes.
func (t *Trace) world(pools []plan.Pool) *sim.World {
	return &sim.World{State: plan.Snapshot{Now: time.Unix(0, 0).UTC(), Pools: pools}, Score: t.score}
}

// softTaint is what a soft taint takes from score: kube-scheduler weighs
// TaintToleration three times as much as the resources, which score counts twice.
const softTaint = 600

// score is kube-scheduler's LeastAllocated over CPU and memory, its default, or
// MostAllocated.
func (t *Trace) score(p *plan.Pod, n *plan.Node, cpu, memory int64) int64 {
	used := (cpu+p.CPUMilli)*100/n.CPUMilli + (memory+p.MemoryMi)*100/n.MemoryMi
	if !t.options.MostAllocated {
		used = -used
	}
	if n.SoftTainted {
		used -= softTaint
	}
	return used
}

package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options are the assumptions of a replay.
type Options struct {
	Model       string        // of every GPU: "A100-80GB"
	GPUs        []int         // sizes of nodes, in GPUs; each size has its own pools
	CPU, Memory int           // of the largest node: thousandths of a core, MiB; smaller ones have as much for each GPU
	MaxNodes    int           // of each pool
	Price       float64       // of a GPU for an hour
	MIGPrice    float64       // the same where the pool has MIG layouts; 0 for Price
	Boot        time.Duration // from the request for a node until pods run on it
	Repartition time.Duration // how long a repartition takes
	Interval    time.Duration // between two plans, at least
	IdleAfter   time.Duration // how long ours keeps an empty node; 0 as for a pool that does not state it
	From, Days  float64       // the part of the trace that is played, in days from its first pod on; 0 days for all
	Copies      int           // of each pod, the further ones up to an hour later
	Seed        uint64        // the first one; further ones count up from it
	// Seeds is how many are played; 0 for ten where chance enters, else one.
	Seeds int
	// MostAllocated places pods on the fullest node, not on the emptiest. With Agent a GPU can
	// be repartitioned while some of its instances are allocated.
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
	GangSize        int     // pods of such a gang, each like the pod that became it
	Evictable       float64 // share of the pods that may be evicted, and then begin again
	Interruptions   float64 // of each node in an hour, as of spot nodes
	FailRepartition float64 // share of repartitions that fail
	FailBoot        float64 // share of requested nodes that never register
}

func (c Chance) any() bool {
	return c.Gangs > 0 || c.Evictable > 0 || c.Interruptions > 0 || c.FailRepartition > 0 || c.FailBoot > 0
}

// bound is the values that a flag may have.
type bound struct {
	flag               string
	value, least, most float64
}

// check returns what is wrong with values, one line for each.
func check(all []bound) error {
	var wrong []error
	for _, b := range all {
		if !(b.value >= b.least && b.value <= b.most) {
			wrong = append(wrong, fmt.Errorf("--%s: %v: want %v … %v", b.flag, b.value, b.least, b.most))
		}
	}
	return errors.Join(wrong...)
}

const (
	mostDays  = 3660
	mostPrice = 1e9
)

func (o *Options) check() error {
	least := 1.0 // of the largest node, so that the smallest has some too
	if len(o.GPUs) > 0 {
		least = math.Ceil(float64(o.largest()) / float64(max(slices.Min(o.GPUs), 1)))
	}
	all := []bound{
		{"gangs", o.Gangs, 0, 1}, {"evictable", o.Evictable, 0, 1}, {"fail-repartition", o.FailRepartition, 0, 1}, {"fail-boot", o.FailBoot, 0, 1},
		{"interruptions (of a node in an hour)", o.Interruptions, 0, 60}, {"price", o.Price, 0, mostPrice}, {"mig-price", o.MIGPrice, 0, mostPrice},
		{"cpu-milli", float64(o.CPU), least, maxAmount}, {"memory-mib", float64(o.Memory), least, maxAmount}, {"max-nodes", float64(o.MaxNodes), 1, 100000},
		{"interval (in seconds)", o.Interval.Seconds(), 1, 3600}, {"idle-after (in seconds)", o.IdleAfter.Seconds(), 0, maxSeconds}, {"boot (in seconds)", o.Boot.Seconds(), 0, maxSeconds}, {"repartition (in seconds)", o.Repartition.Seconds(), 0, maxSeconds},
		{"from", o.From, 0, mostDays}, {"days", o.Days, 0, mostDays}, {"copies", float64(o.Copies), 1, 1000}, {"seeds", float64(o.Seeds), 0, 1000},
		{"gpus (sizes)", float64(len(o.GPUs)), 1, 8},
	}
	if o.Gangs > 0 {
		all = append(all, bound{"gang-size", float64(o.GangSize), 2, 64})
	}
	for i, n := range o.GPUs {
		all = append(all, bound{"gpus", float64(n), 1, 64})
		if slices.Contains(o.GPUs[:i], n) {
			return fmt.Errorf("--gpus: %d twice", n)
		}
	}
	return check(all)
}

// seeds returns how many seeds are played.
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

package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// Figures are what one policy did, or the standard deviations of that.
type Figures struct {
	Paid         float64 `json:"gpuHoursPaid"`
	Allocated    float64 `json:"gpuHoursAllocated"` // whole GPUs, and instances by share of compute slices
	Booting      float64 `json:"gpuHoursBooting"`   // of nodes that are requested and not ready
	Empty        float64 `json:"gpuHoursEmpty"`     // of ready nodes without a pod
	Pending      float64 `json:"gpuHoursPending"`   // what pods requested while they were pending
	Money        float64 `json:"money"`
	Pods         float64 `json:"pods"`
	Served       float64 `json:"served"`
	P50          float64 `json:"pendingP50Seconds"`
	P95          float64 `json:"pendingP95Seconds"`
	P99          float64 `json:"pendingP99Seconds"`
	Repartitions float64 `json:"repartitions"`
	Evictions    float64 `json:"evictions"` // by the policy, and by a node that is gone
	Added        float64 `json:"nodesAdded"`
	Removed      float64 `json:"nodesRemoved"`
	Plans        float64 `json:"plans"`
	PeakGPUs     float64 `json:"peakGPUs"`
	PerDay       float64 `json:"processorSecondsPerDay"`
}

func (f *Figures) all() []*float64 {
	return []*float64{&f.Paid, &f.Allocated, &f.Booting, &f.Empty, &f.Pending, &f.Money, &f.Pods, &f.Served, &f.P50, &f.P95, &f.P99, &f.Repartitions,
		&f.Evictions, &f.Added, &f.Removed, &f.Plans, &f.PeakGPUs, &f.PerDay}
}

// Run is what one policy did: the means over the seeds.
type Run struct {
	Policy string `json:"policy"`
	Figures
	// Deviation is the standard deviation over the seeds, nil for one seed.
	Deviation *Figures `json:"deviation,omitempty"`

	curve curve // of the first seed
}

// Result is the answer of a replay. Bounds are means over the seeds.
type Result struct {
	Seeds int     `json:"seeds"`
	Runs  []Run   `json:"runs"`
	Bound float64 `json:"boundGPUHours"` // no policy that serves all pods pays less
	// BoundAtOnce is the bound for whole nodes on which every pod runs from its arrival on.
	BoundAtOnce float64        `json:"boundAtOnceGPUHours"`
	Left        map[string]int `json:"leftOut"` // pods that are not played, by reason
	Days        float64        `json:"days"`    // from the first pod's arrival to the last one's

	demand curve // of the first seed
	sizes  int   // of nodes
}

// mean returns the means and deviations of the runs of one policy.
func mean(runs []Run) Run {
	out := runs[0]
	if len(runs) == 1 {
		return out
	}
	out.Deviation = &Figures{}
	to, off := out.all(), out.Deviation.all()
	values := make([]float64, len(runs))
	for f := range to {
		for i := range runs {
			values[i] = *runs[i].all()[f]
		}
		*to[f], *off[f] = stat.MeanStdDev(values, nil)
	}
	return out
}

// String is the answer as a table.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f days, %d seed(s); left out: %s\n\n", r.Days, r.Seeds, leftText(r.Left))
	fmt.Fprintf(&b, "%10s %10s %8s %8s %9s %9s %13s %6s %6s %6s %5s %5s %5s %5s %5s %7s  %s\n", "GPU-h paid", "allocated", "booting", "empty", "pending", "money", "served", "p50 s", "p95 s", "p99 s",
		"repar", "evict", "added", "gone", "peak", "s/day", "policy")
	row := func(f *Figures, name string) {
		fmt.Fprintf(&b, "%10.0f %10.0f %8.0f %8.0f %9.0f %9.0f %6.0f/%6.0f %6.0f %6.0f %6.0f %5.0f %5.0f %5.0f %5.0f %5.0f %7.2f  %s\n", f.Paid, f.Allocated, f.Booting, f.Empty, f.Pending, f.Money,
			f.Served, f.Pods, f.P50, f.P95, f.P99, f.Repartitions, f.Evictions, f.Added, f.Removed, f.PeakGPUs, f.PerDay, name)
	}
	for i := range r.Runs {
		row(&r.Runs[i].Figures, r.Runs[i].Policy)
		if d := r.Runs[i].Deviation; d != nil {
			row(d, "± (standard deviation)")
		}
	}
	fmt.Fprintf(&b, "%10.0f %103s  hindsight: no policy that serves all pods pays less\n", r.Bound, "")
	fmt.Fprintf(&b, "%10.0f %103s  hindsight, whole nodes: no policy that keeps no pod pending pays less\n", r.BoundAtOnce, "")
	if r.sizes > 1 {
		b.WriteString("\nstatic adds nodes of one size in each scan: the size that wastes least, of equal ones the first of --gpus. So the order of --gpus decides whether it adds small or large nodes first.\n")
	}
	return b.String()
}

func leftText(left map[string]int) string {
	var words []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		words = append(words, fmt.Sprintf("%d %s", left[why], why))
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// MIG is section 5.
type MIG struct {
	GPUs          []MIGGPU        `json:"gpus" doc:"GPUs partitioned into instances at the end, at most 512."`
	GPUsTotal     int             `json:"gpusTotal"`
	Fragmentation []Fragmentation `json:"fragmentation"`
	Profiles      []Profile       `json:"profiles"`
	RightSize     []RightSize     `json:"rightSize" doc:"Workloads that fit a smaller slice, the most saved first."`
	RightSizeNote string          `json:"rightSizeNote" doc:"The evidence required, and what it left out."`
	Missing       string          `json:"missing" doc:"What the section lacks, if anything."`
}

// MIGGPU is a GPU and its instances.
type MIGGPU struct {
	Node      string     `json:"node"`
	GPU       string     `json:"gpu"`
	UUID      string     `json:"uuid"`
	Model     string     `json:"model"`
	Slices    int        `json:"slices" doc:"Memory slices of the GPU."`
	Instances []Instance `json:"instances" doc:"By start."`
}

// Instance is a GPU instance.
type Instance struct {
	Profile     string `json:"profile"`
	Start       int    `json:"start" doc:"First memory slice."`
	Size        int    `json:"size" doc:"Memory slices."`
	AllocatedTo string `json:"allocatedTo" doc:"namespace/pod, of several the first and how many more; empty where it is free."`
}

// Fragmentation is how scattered the free slices of a model's MIG GPUs are.
type Fragmentation struct {
	Model string `json:"model"`
	GPUs  int    `json:"gpus"`
	Free  int    `json:"free" doc:"Free compute slices."`
	Index Number `json:"index" doc:"1 - (compute slices of the largest instance that fits beside what is allocated, over all GPUs) ÷ free. 0: every GPU's free slices are one piece."`
}

// Profile is the use of all instances of one profile.
type Profile struct {
	Model     string `json:"model"`
	Profile   string `json:"profile"`
	Instances int    `json:"instances" doc:"At the end."`
	Allocated int    `json:"allocated" doc:"At the end."`
	Mean      Number `json:"mean" doc:"Instances allocated, mean over the window."`
}

// RightSize is a workload that would fit into a smaller instance.
type RightSize struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Model     string `json:"model"`
	From      string `json:"from" doc:"Profile allocated, \"whole GPU\" for none."`
	To        string `json:"to" doc:"Smallest profile that fits, with the margin."`
	Memory    Number `json:"memory" doc:"99th percentile of memory in use, bytes."`
	Use       Number `json:"use" doc:"95th percentile of use, as a share of what is allocated."`
	Evidence  Number `json:"evidence" doc:"Hours of one pod observed."`
	Hours     Number `json:"hours" doc:"GPU-hours it would have saved."`
}

// mostGPUs bounds the number of GPUs in the map.
const mostGPUs = 512

// Evidence that is required before a smaller instance is proposed.
const (
	evidenceHours = 24   // hours of one pod
	memoryMargin  = 1.15 // times the 99th percentile
	useMargin     = 1.25 // times the 95th percentile
)

// migOf makes section 5.
func migOf(a answers, work map[workKey]*work) MIG {
	o := MIG{}
	if !a.Exporter {
		o.Missing = noExporter
		return o
	}
	o.RightSize, o.RightSizeNote = rightSize(a, work)
	why := a.open(query.Devices, query.Instances)
	if a.Missing(a.coarse, query.AllocatedTo)[a.coarse.N] {
		why = a.open(query.AllocatedTo)
	}
	if why != "" {
		o.Missing = why
		return o // without allocations all instances would be drawn as free
	}
	gpus := migGPUs(a)
	o.GPUsTotal = len(gpus)
	o.Fragmentation = fragmentation(gpus)
	o.Profiles = profiles(a, gpus)
	o.GPUs = gpus[:min(len(gpus), mostGPUs)]
	if len(gpus) == 0 {
		o.Missing = "no GPU was partitioned into MIG instances at the end of the window"
	}
	return o
}

func migGPUs(a answers) []MIGGPU {
	allocatedTo := map[string][]string{}
	for _, l := range a.Lines[query.AllocatedTo] {
		if i, ok := a.coarse.Index(l.Points[len(l.Points)-1].Time); !ok || i != a.coarse.N {
			continue // does not exist at the end
		}
		id := l.Labels.Get(metric.LabelGPUUUID) + "/" + l.Labels.Get(metric.LabelGPUInstanceID)
		allocatedTo[id] = append(allocatedTo[id], l.Labels.Get(a.Dialect.Namespace())+"/"+l.Labels.Get(a.Dialect.Pod()))
	}
	gpus := map[string]*MIGGPU{}
	for _, s := range a.Vectors[query.Instances] {
		uuid := s.Labels.Get(metric.LabelGPUUUID)
		g := entry(gpus, uuid, MIGGPU{Node: s.Labels.Get(metric.LabelNode), GPU: s.Labels.Get(metric.LabelGPU), UUID: uuid, Model: gpu.ProductName(a.models[uuid]), Slices: 8})
		if t, ok := mig.ForModel(g.Model); ok {
			g.Slices = t.MemorySlices()
		}
		start, err1 := strconv.Atoi(s.Labels.Get(metric.LabelStart))
		size, err2 := strconv.Atoi(s.Labels.Get(metric.LabelSize))
		if err1 != nil || err2 != nil || start < 0 || size < 1 || start+size > g.Slices {
			continue // without a placement it would be drawn over another one
		}
		who := allocatedTo[uuid+"/"+s.Labels.Get(metric.LabelGPUInstanceID)]
		slices.Sort(who)
		g.Instances = append(g.Instances, Instance{Profile: s.Labels.Get(metric.LabelProfile), Start: start, Size: size, AllocatedTo: text.Several(slices.Compact(who), 1)})
	}
	all := values(gpus)
	for _, g := range all {
		slices.SortFunc(g.Instances, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
	}
	slices.SortStableFunc(all, func(a, b MIGGPU) int {
		x, _ := strconv.Atoi(a.GPU)
		y, _ := strconv.Atoi(b.GPU)
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(x, y))
	})
	return all
}

// fragmentation compares the number of free slices with the largest instance that fits beside the allocated
// ones.
func fragmentation(gpus []MIGGPU) []Fragmentation {
	by := map[string]*Fragmentation{}
	piece := map[string]int{} // sum of the largest instances that fit, by model
	for _, c := range gpus {
		t, ok := mig.ForModel(c.Model)
		if !ok {
			continue
		}
		var allocated mig.Layout
		for _, i := range c.Instances {
			if p, err := t.Lookup(i.Profile); err == nil && i.AllocatedTo != "" {
				allocated = append(allocated, mig.Placement{Profile: p, Start: i.Start})
			}
		}
		allocated = mig.NewLayout(allocated...)
		if t.Legal(allocated) != nil {
			continue
		}
		f := entry(by, c.Model, Fragmentation{Model: c.Model, Index: Unknown("no slice is free")})
		free, _ := t.FreeSlices(allocated)
		largest := 0
		for _, p := range t.Free(allocated) {
			largest = max(largest, p.Profile.Compute)
		}
		f.GPUs++
		f.Free += free
		if piece[c.Model] += largest; f.Free > 0 {
			f.Index = Known(1 - float64(piece[c.Model])/float64(f.Free))
		}
	}
	return values(by)
}

func profiles(a answers, gpus []MIGGPU) []Profile {
	by := map[string]*Profile{} // key: model and profile
	of := func(model, profile string) *Profile {
		return entry(by, model+"\x00"+profile, Profile{Model: model, Profile: profile, Mean: Known(0)})
	}
	for _, c := range gpus {
		for _, i := range c.Instances {
			p := of(c.Model, i.Profile)
			p.Instances++
			if i.AllocatedTo != "" {
				p.Allocated++
			}
		}
	}
	g := a.Window.Grid(a.Window.Step)
	// Without an exporter there is no value, so the mean covers only the time with one.
	seen := map[int]bool{}
	for _, l := range a.Lines[query.Nodes] {
		for i, v := range ledger.Values(l, g) {
			if i > 0 && !math.IsNaN(v) {
				seen[i] = true
			}
		}
	}
	for _, l := range a.Lines[query.Allocated] {
		profile := l.Labels.Get(metric.LabelProfile)
		if profile == "" {
			continue
		}
		p := of(gpu.ProductName(l.Labels.Get(metric.LabelModel)), profile)
		if len(seen) > 0 {
			p.Mean = p.Mean.Plus(Known(sum(known(ledger.Values(l, g))) / float64(len(seen))))
		}
	}
	for _, p := range by {
		p.Mean = a.unless(p.Mean, query.Allocated)
	}
	return values(by)
}

// rightSize finds workloads that would fit a smaller instance, and records it in their work.
func rightSize(a answers, work map[workKey]*work) ([]RightSize, string) {
	var all []RightSize
	young, blind := 0, 0
	for _, w := range sortedWork(work) {
		hours, whole, evidence := a.markedHours(w.allocated)
		t, ok := mig.ForModel(w.model)
		if !ok || hours == 0 {
			continue
		}
		switch {
		case evidence < evidenceHours:
			young++
			continue
		case math.IsNaN(w.memory) || math.IsNaN(w.use):
			blind++
			continue
		}
		to, part, ok := smallest(t, w.memory, w.use*w.part())
		saved := hours*w.part() - whole*part // each pod that shares a GPU gets an instance of its own
		if !ok || saved <= 1e-9*hours {
			continue
		}
		from := w.profile
		if from == "" {
			from = "whole GPU"
		}
		w.fits = &RightSize{
			Namespace: w.namespace, Workload: w.name, Model: t.Model(), From: from, To: to, Memory: Known(w.memory), Use: Known(w.use),
			Evidence: Known(evidence), Hours: Known(saved),
		}
		all = append(all, *w.fits)
	}
	most(all, func(r RightSize) Number { return r.Hours }, func(r RightSize) string { return r.Namespace + "/" + r.Workload + r.From + r.Model })
	note := fmt.Sprintf("A smaller slice is proposed after %d hours of one pod, if it has %.0f %% more memory than the 99th percentile in use, and %.0f %% more compute than the 95th. "+
		"The percentiles are those of the day with the largest.", evidenceHours, 100*(memoryMargin-1), 100*(useMargin-1))
	if young > 0 {
		note += fmt.Sprintf(" There is not enough data for %d workloads.", young)
	}
	if blind > 0 {
		note += fmt.Sprintf(" The memory or the use of %d workloads was not measured.", blind)
	}
	return all, note
}

// smallest returns the profile with the least compute that fits this memory and this use of a whole GPU, and
// the profile's share of the GPU.
func smallest(t *mig.Table, memory, use float64) (name string, part float64, ok bool) {
	const mib = 1 << 20
	for _, p := range t.Profiles() {
		share := float64(p.Compute) / float64(t.ComputeSlices())
		has := float64(t.MemoryMiB(p)) * mib
		if p.Attrs != 0 || has < memory*memoryMargin || share < use*useMargin {
			continue
		}
		if !ok || share < part {
			name, part, ok = t.Name(p), share, true
		}
	}
	return name, part, ok
}

package model

import (
	"math"
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Reliability is section 8.
type Reliability struct {
	XIDs    []XID      `json:"xids" doc:"XID errors by code, the most frequent first."`
	Lost    Number     `json:"lost" doc:"GPU-hours in the places sick and unready."`
	Money   Number     `json:"money" doc:"What they cost."`
	Nodes   []SickNode `json:"nodes" doc:"Nodes with sick GPUs, the longest first."`
	MTBF    Number     `json:"mtbf" doc:"GPU-hours per XID that condemns a GPU."`
	Missing string     `json:"missing" doc:"What the section lacks without the exporter."`
}

// XID is one error code and how often it occurred.
type XID struct {
	Code      string   `json:"code"`
	Count     Number   `json:"count"`
	GPUs      int      `json:"gpus"`
	Nodes     []string `json:"nodes"`
	Condemned bool     `json:"condemned" doc:"After such an error the GPU needs a reset or a technician."`
}

// SickNode is a node and how long its GPUs were sick.
type SickNode struct {
	Node  string `json:"node"`
	Hours Number `json:"hours" doc:"GPU-hours."`
}

// reliabilityOf makes section 8.
func reliabilityOf(a answers, led ledger.Ledger, c pricing) Reliability {
	total := led.Total()
	r := Reliability{Lost: Known((total[ledger.Sick] + total[ledger.Unready]) / hour)}
	r.Money = c.cost(func(r ledger.Row) float64 { return r.Time[ledger.Sick] + r.Time[ledger.Unready] })
	if led.Capacity == 0 {
		r.Lost = Unknown("no record in the window")
	}
	r.MTBF = Unknown("no GPU was condemned in the window")
	if !a.Exporter {
		r.Missing = noExporter
		r.MTBF = Unknown(noExporter)
		return r
	}
	var condemned float64
	if r.XIDs, condemned = xids(a); condemned > 0 {
		r.MTBF = Known(led.Capacity / hour / condemned)
	}
	r.MTBF = a.unless(r.MTBF, query.XIDs)
	for _, l := range a.Lines[query.SickNodes] {
		if hours := a.total(a.values(l)); hours > 0 {
			r.Nodes = append(r.Nodes, SickNode{Node: l.Labels.Get(metric.LabelNode), Hours: Known(hours)})
		}
	}
	most(r.Nodes, func(n SickNode) Number { return n.Hours }, func(n SickNode) string { return n.Node })
	return r
}

// xids counts the errors of each code, and those that condemn a GPU.
func xids(a answers) (all []XID, condemned float64) {
	type code struct {
		count       float64
		gpus, nodes []string
	}
	by := map[string]*code{}
	since := ledger.Known(a.Lines[query.Nodes], a.coarse)
	of := func(l prom.Line) [2]string {
		return [2]string{l.Labels.Get(metric.LabelNode), l.Labels.Get(metric.LabelGPUUUID)}
	}
	zeros := map[[2]string][]float64{} // by GPU, for the time in which it exists
	for _, l := range a.Lines[query.XIDs] {
		if l.Labels.Get(metric.LabelXID) == "" {
			zeros[of(l)] = a.values(l)
		}
	}
	for _, l := range a.Lines[query.XIDs] {
		values := a.values(l)
		for i, zero := range zeros[of(l)] {
			if math.IsNaN(values[i]) {
				values[i] = zero
			}
		}
		n := ledger.Grown(values, since)
		if n < 0.5 {
			continue
		}
		e := entry(by, l.Labels.Get(metric.LabelXID), code{})
		e.count += n
		e.gpus = append(e.gpus, l.Labels.Get(metric.LabelGPUUUID))
		e.nodes = append(e.nodes, l.Labels.Get(metric.LabelNode))
	}
	for _, x := range keys(by) {
		e := by[x]
		slices.Sort(e.gpus)
		slices.Sort(e.nodes)
		n, err := strconv.Atoi(x)
		is := err == nil && gpu.XIDCondemns(n)
		if is {
			condemned += e.count
		}
		all = append(all, XID{Code: x, Count: Known(e.count), GPUs: len(slices.Compact(e.gpus)), Nodes: slices.Compact(e.nodes), Condemned: is})
	}
	most(all, func(x XID) Number { return x.Count }, func(x XID) string {
		n, _ := strconv.Atoi(x.Code)
		return strconv.Itoa(1e6 + n)
	})
	return all, condemned
}

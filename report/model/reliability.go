package model

import (
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
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
	Missing string     `json:"missing" doc:"What the section lacks, if anything."`
}

// XID is one code of error.
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

func (m *maker) reliability() Reliability {
	total := m.l.Total()
	r := Reliability{Lost: Known((total[ledger.Sick] + total[ledger.Unready]) / hour)}
	r.Money = m.cost(func(r ledger.Row) float64 { return r.Time[ledger.Sick] + r.Time[ledger.Unready] })
	if m.l.Capacity == 0 {
		r.Lost = Unknown("no record in the window")
	}
	r.MTBF = Unknown("no GPU was condemned in the window")
	if !m.a.Exporter {
		r.Missing = noExporter
		r.MTBF = Unknown(noExporter)
		return r
	}
	type code struct {
		count       float64
		gpus, nodes []string
	}
	by := map[string]*code{}
	since := ledger.Known(m.a.Lines[query.Nodes], m.coarse)
	for _, l := range m.a.Lines[query.XIDs] {
		n := ledger.Grown(m.values(l), since)
		if n < 0.5 {
			continue
		}
		c := entry(by, l.Labels.Get(metric.LabelXID), code{})
		c.count += n
		c.gpus = append(c.gpus, l.Labels.Get(metric.LabelGPUUUID))
		c.nodes = append(c.nodes, l.Labels.Get(metric.LabelNode))
	}
	condemned := 0.0
	for _, x := range keys(by) {
		c := by[x]
		slices.Sort(c.gpus)
		slices.Sort(c.nodes)
		n, err := strconv.Atoi(x)
		is := err == nil && gpu.XIDCondemns(n)
		if is {
			condemned += c.count
		}
		r.XIDs = append(r.XIDs, XID{Code: x, Count: Known(c.count), GPUs: len(slices.Compact(c.gpus)), Nodes: slices.Compact(c.nodes), Condemned: is})
	}
	most(r.XIDs, func(x XID) Number { return x.Count }, func(x XID) string {
		n, _ := strconv.Atoi(x.Code)
		return strconv.Itoa(1e6 + n)
	})
	if condemned > 0 {
		r.MTBF = Known(m.l.Capacity / hour / condemned)
	}
	r.MTBF = m.unless(r.MTBF, query.XIDs)
	r.Missing = lacks(m.open(query.XIDs), m.open(query.SickNodes))
	for _, l := range m.a.Lines[query.SickNodes] {
		if hours := m.total(m.values(l)); hours > 0 {
			r.Nodes = append(r.Nodes, SickNode{Node: l.Labels.Get(metric.LabelNode), Hours: Known(hours)})
		}
	}
	most(r.Nodes, func(n SickNode) Number { return n.Hours }, func(n SickNode) string { return n.Node })
	return r
}

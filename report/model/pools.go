package model

import (
	"cmp"
	"math"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Pool is a row of section 4.
type Pool struct {
	Pool         string `json:"pool"`
	Model        string `json:"model"`
	Class        string `json:"class" doc:"\"spot\", \"on demand\" or \"unknown\"."`
	Min          Number `json:"min"`
	Max          Number `json:"max"`
	Mean         Number `json:"mean" doc:"Nodes, mean over the window."`
	Now          Number `json:"now" doc:"Nodes at the end."`
	Hours        Number `json:"hours" doc:"GPU-hours."`
	Used         Number `json:"used" doc:"Share of them computing."`
	Money        Number `json:"money"`
	Added        Number `json:"added" doc:"Scale-ups carried out."`
	Removed      Number `json:"removed" doc:"Nodes removed."`
	Repartitions Number `json:"repartitions"`
	Failures     Number `json:"failures"`
	FailedFor    string `json:"failedFor" doc:"Reasons of the failures."`
	ReadyP50     Number `json:"readyP50" doc:"Seconds from request to ready."`
	ReadyP95     Number `json:"readyP95"`
	Interrupted  Number `json:"interrupted" doc:"Spot interruptions."`
	BackedOff    Number `json:"backedOff" doc:"Hours of backoff after failures."`
}

// Values of the label "verb" of gpuscale_autoscaler_actions_total.
const (
	verbScaleUp     = "scale-up"
	verbRemove      = "remove-node"
	verbRepartition = "repartition"
)

// poolsOf makes section 4.
func poolsOf(a answers, led ledger.Ledger, c pricing) []Pool {
	nodes := a.byKind(query.PoolNodes, metric.LabelPool)
	since := a.autoscalerSince()
	done := a.grown(query.Actions, since, func(ls prom.Labels) string {
		if ls.Get(metric.LabelResult) != "ok" {
			return ""
		}
		return ls.Get(metric.LabelPool) + "\xff" + ls.Get(metric.LabelVerb)
	})
	failed := a.grown(query.Failures, since, func(ls prom.Labels) string {
		return ls.Get(metric.LabelPool) + "\xff" + ls.Get(metric.LabelReason)
	})
	interrupted := a.grown(query.Interrupted, since, func(ls prom.Labels) string { return ls.Get(metric.LabelPool) })
	ready := a.waits(query.NodeReady, metric.LabelPool)
	away := map[string]float64{}
	for _, l := range a.Lines[query.Backoff] {
		away[l.Labels.Get(metric.LabelPool)] += a.total(a.values(l))
	}
	var all []Pool
	for _, pool := range keys(nodes) {
		n := nodes[pool]
		p := Pool{
			Pool: pool, Class: cmp.Or(c.spot[pool], "unknown"), Min: a.last(n["min"]), Max: a.last(n["max"]), Mean: mean(n["size"]), Now: a.last(n["size"]),
			Added: a.unless(Known(math.Round(done[pool+"\xff"+verbScaleUp])), query.Actions), Removed: a.unless(Known(math.Round(done[pool+"\xff"+verbRemove])), query.Actions),
			Repartitions: a.unless(Known(math.Round(done[pool+"\xff"+verbRepartition])), query.Actions),
			Interrupted:  a.unless(Known(math.Round(interrupted[pool])), query.Interrupted), BackedOff: a.unless(Known(away[pool]), query.Backoff),
		}
		poolHours(&p, led, c)
		none := a.unless(Unknown("no node became ready in the window"), query.NodeReady)
		p.ReadyP50, p.ReadyP95 = none, none
		if wait, ok := ready[pool]; ok && wait.Count.Or(0) > 0 {
			p.ReadyP50, p.ReadyP95 = wait.P50, wait.P95
		}
		failures := 0.0
		var reasons []string
		for _, key := range keys(failed) {
			of, reason, _ := strings.Cut(key, "\xff")
			if of == pool && failed[key] > 0 {
				failures += failed[key]
				reasons = append(reasons, reason)
			}
		}
		p.Failures, p.FailedFor = a.unless(Known(math.Round(failures)), query.Failures), strings.Join(reasons, ", ")
		all = append(all, p)
	}
	return all
}

func poolHours(p *Pool, led ledger.Ledger, c pricing) {
	var t ledger.Time
	var models []string
	for _, r := range led.Rows {
		if r.Pool != p.Pool {
			continue
		}
		t.Add(r.Time)
		if len(models) == 0 || models[len(models)-1] != r.Model {
			models = append(models, r.Model)
		}
	}
	p.Model = strings.Join(models, ", ")
	p.Hours, p.Used = Known(t.Sum()/hour), Known(t[ledger.Busy]).Over(Known(t.Sum()))
	switch {
	case t.Sum() == 0:
		p.Used = Unknown("the pool had no GPUs")
	case t.Dark():
		p.Used = Unknown(notMeasured)
	}
	p.Money = c.cost(func(r ledger.Row) float64 {
		if r.Pool != p.Pool {
			return 0
		}
		return r.Time.Sum()
	})
}

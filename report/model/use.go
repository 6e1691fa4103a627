package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Use is section 3.
type Use struct {
	Tenants []Tenant  `json:"tenants" doc:"Quotas, means over the window in GPUs."`
	Rows    []UseRow  `json:"rows" doc:"By tenant, namespace and model, the most expensive first, or the largest where any has no price."`
	Serving []Serving `json:"serving" doc:"Namespaces whose servers count tokens."`
	Missing string    `json:"missing" doc:"What the section lacks without the autoscaler."`
}

// Tenant is a quota and its use. The figures are means over the window in GPUs.
type Tenant struct {
	Tenant     string `json:"tenant"`
	Guaranteed Number `json:"guaranteed"`
	Limit      Number `json:"limit"`
	Used       Number `json:"used"`
	Borrowed   Number `json:"borrowed"`
	Lent       Number `json:"lent"`
	Pending    Number `json:"pending"`
}

// UseRow is a namespace's use of one model.
type UseRow struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Model     string `json:"model"`
	Allocated Number `json:"allocated" doc:"Hours allocated."`
	Used      Number `json:"used" doc:"Hours computing."`
	Share     Number `json:"share" doc:"Used ÷ allocated whose use is known."`
	Idle      Number `json:"idle" doc:"Hours allocated that hardly computed at all."`
	Money     Number `json:"money" doc:"Of what was allocated."`
	Waste     Number `json:"waste" doc:"Of what was idle."`
}

// Serving is what a namespace's inference servers generated.
type Serving struct {
	Namespace string `json:"namespace"`
	Models    string `json:"models" doc:"Names of the models served."`
	Tokens    Number `json:"tokens" doc:"Written."`
	Allocated Number `json:"allocated" doc:"Hours allocated to the namespace."`
	Cost      Number `json:"cost" doc:"Money per million tokens written: of all that was allocated to the namespace, not only to its servers."`
}

// useOf makes section 3.
func useOf(a answers, led ledger.Ledger, c pricing) Use {
	u := Use{}
	u.Tenants = tenants(a)
	type row struct {
		time         ledger.Time
		money, waste Number
	}
	by := map[ledger.Key]*row{}
	for _, r := range led.Rows {
		allocated, key := r.Time.Allocated(), r.Key
		if key.Pool = ""; allocated == 0 {
			continue
		}
		x := entry(by, key, row{money: Known(0), waste: Known(0)})
		x.time.Add(r.Time)
		x.money = x.money.Plus(c.money(r.Pool, r.Model, allocated/hour))
		x.waste = x.waste.Plus(c.money(r.Pool, r.Model, r.Time[ledger.Idle]/hour))
	}
	priced := true           // money is used only if all hours have a price
	for key, x := range by { // most sorts them later
		t, row := x.time, UseRow{Tenant: key.Tenant, Namespace: key.Namespace, Model: key.Model, Allocated: Known(x.time.Allocated() / hour), Money: x.money, Waste: x.waste}
		measured := t.Allocated() - t[ledger.Unmeasured]
		if measured > 0 {
			row.Used, row.Idle = Known(t[ledger.Busy]/hour), Known(t[ledger.Idle]/hour)
			row.Share = Known(t[ledger.Busy] / measured)
		} else {
			why := Unknown(notMeasured)
			row.Used, row.Idle, row.Share, row.Waste = why, why, why, why
		}
		if _, ok := row.Money.Get(); !ok {
			priced = false
		}
		u.Rows = append(u.Rows, row)
	}
	most(u.Rows, func(r UseRow) Number {
		if priced {
			return r.Money
		}
		return r.Allocated
	}, func(r UseRow) string { return r.Tenant + "/" + r.Namespace + "/" + r.Model })
	u.Serving = serving(a, led, c)
	if !a.Autoscaler {
		u.Missing = noAutoscaler + ": no tenants, quotas, borrowed or lent GPUs"
	}
	return u
}

func tenants(a answers) []Tenant {
	values := a.byKind(query.Tenants, metric.LabelTenant)
	of := func(v []float64, why string) Number {
		if v == nil {
			return Unknown(why)
		}
		return mean(v)
	}
	var all []Tenant
	for _, name := range keys(values) {
		v := values[name]
		all = append(all, Tenant{
			Tenant: name, Guaranteed: of(v["guaranteed"], "no guarantee"), Limit: of(v["limit"], "no limit"), Used: of(v["used"], "not reported"),
			Borrowed: of(v["borrowed"], "not reported"), Lent: of(v["lent"], "not reported"), Pending: of(v["pending"], "not reported"),
		})
	}
	return all
}

// serving compares generated tokens with the GPU hours allocated to the same namespace. Pods come and go, and
// each one counts tokens from zero. A gateway repeats its servers' counters; these count only in namespaces
// without own servers' series.
func serving(a answers, led ledger.Ledger, c pricing) []Serving {
	known := ledger.Known(a.Lines[query.Tokens], a.coarse)
	tokens, names, servers := map[string]float64{}, map[string][]string{}, map[string]bool{}
	for _, l := range a.Lines[query.Tokens] {
		if l.Labels.Get(metric.LabelWorkerAddr) == "" {
			servers[l.Labels.Get(metric.LabelNamespace)] = true
		}
	}
	for _, l := range a.Lines[query.Tokens] {
		ns := l.Labels.Get(metric.LabelNamespace)
		if l.Labels.Get(metric.LabelWorkerAddr) != "" && servers[ns] {
			continue
		}
		tokens[ns] += ledger.Grown(a.values(l), known)
		names[ns] = append(names[ns], cmp.Or(l.Labels.Get(metric.Exported+metric.LabelModelName), l.Labels.Get(metric.LabelModelName)))
	}
	by := map[string]*Serving{} // with hours and their cost
	for _, r := range led.Rows {
		if r.Namespace == "" {
			continue
		}
		s, hours := entry(by, r.Namespace, Serving{Allocated: Known(0), Cost: Known(0)}), r.Time.Allocated()/hour
		s.Allocated, s.Cost = s.Allocated.Plus(Known(hours)), s.Cost.Plus(c.money(r.Pool, r.Model, hours))
	}
	beyond := map[string]bool{}
	for _, l := range a.Lines[query.TokensBeyond] {
		ns := l.Labels.Get(metric.LabelNamespace)
		beyond[ns], tokens[ns] = true, 0
	}
	var all []Serving
	for _, ns := range keys(tokens) {
		slices.Sort(names[ns])
		s := Serving{Namespace: ns, Models: strings.Join(slices.Compact(names[ns]), ", "), Tokens: a.unless(Known(tokens[ns]), query.TokensBeyond)}
		if beyond[ns] {
			s.Tokens = Unknown(fmt.Sprintf("its servers have more than %d series of tokens", query.MostServing))
		}
		none := Unknown("no GPU was allocated to the namespace")
		of := entry(by, ns, Serving{Allocated: none, Cost: none})
		s.Allocated, s.Cost = of.Allocated, a.unless(of.Cost.Over(s.Tokens.Times(1e-6)), query.Tokens)
		all = append(all, s)
	}
	return all
}

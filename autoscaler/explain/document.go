package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// Version is the version of a Document's JSON. Fields may be added; removing one or
// changing its meaning needs another version.
const Version = "explain.gpuscale.io/v1"

// Document is one explanation. Times are RFC 3339 in UTC, money is in the currency
// of the pools' prices, durations are in seconds.
type Document struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`    // Pod, Gang or Pool
	Subject    string    `json:"subject"` // namespace/name, or the pool's name
	At         time.Time `json:"at"`      // of the snapshot
	Answer     Answer    `json:"answer"`
	// Pod is the pod; of a gang, the member that decided its verdict.
	Pod *Pod `json:"pod,omitempty"`
	// Members of a gang, pending ones first.
	Members []Subject `json:"members,omitempty"`
	// Pool is the pool.
	Pool *Pool `json:"pool,omitempty"`
	// Options for Pod, in the planner's order.
	Options []Option `json:"options,omitempty"`
	// Actions of the plan for the subject, or on it.
	Actions []Action `json:"actions,omitempty"`
	// Changes would serve the subject: each was verified by planning with it.
	Changes []Change `json:"changes,omitempty"`
	// Tried counts all changes that were tried.
	Tried int `json:"changesTried"`
}

// Answer is a verdict, with the meaning of its reason.
type Answer struct {
	Reason   string `json:"reason"`
	Detail   string `json:"detail,omitempty"`
	Meaning  string `json:"meaning,omitempty"`
	WhatToDo string `json:"whatToDo,omitempty"`
}

// Pod is a pending pod.
type Pod struct {
	Name     string  `json:"name"`
	Requests string  `json:"requests"`
	GPUs     float64 `json:"gpus"` // Requests, as a number of GPUs
	Priority int32   `json:"priority"`
	Waits    float64 `json:"waitsSeconds"`
	Rank     int     `json:"rank"` // by urgency, 1 to Waiting
	Waiting  int     `json:"waiting"`
	Tenant   string  `json:"tenant,omitempty"`
	Borrows  bool    `json:"borrows,omitempty"`
	Gang     string  `json:"gang,omitempty"`
	GangMin  int     `json:"gangMin,omitempty"`
}

// Option is a way to serve the pod.
type Option struct {
	Kind     string   `json:"kind"` // free, wait, repartition, reclaim or node
	On       string   `json:"on,omitempty"`
	Possible bool     `json:"possible"`
	Chosen   bool     `json:"chosen"`
	Cost     *float64 `json:"cost,omitempty"`         // of a possible one
	In       *float64 `json:"readySeconds,omitempty"` // of a possible one
	Reason   string   `json:"reason"`
	Detail   string   `json:"detail,omitempty"`
	Lost     string   `json:"lost,omitempty"` // why it was not chosen
}

// Action is one line of the plan.
type Action struct {
	Verb   string `json:"verb"`
	On     string `json:"on"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Subject is one of several, with its verdict.
type Subject struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Change is a change that would serve the pod.
type Change struct {
	Who  string `json:"who"` // pod owner, quota owner or platform
	What string `json:"what"`
	Then Answer `json:"then"`
}

// answer adds the documentation of a reason.
func answer(reason plan.Reason, detail string) Answer {
	a := Answer{Reason: string(reason), Detail: detail}
	all := plan.Reasons()
	if i := slices.IndexFunc(all, func(d plan.ReasonDoc) bool { return d.Reason == reason }); i >= 0 {
		a.Meaning, a.WhatToDo = all[i].Meaning, all[i].WhatToDo
	}
	return a
}

// verdictOf is a subject's verdict, without a reason for none.
func verdictOf(p plan.Plan, kind plan.Kind, subject string) plan.Verdict {
	for _, v := range p.Verdicts {
		if v.Kind == kind && v.Subject == subject {
			return v
		}
	}
	return plan.Verdict{}
}

func actionsWhere(p plan.Plan, concerns func(a plan.Action) bool) []Action {
	var out []Action
	for _, a := range p.Actions {
		if concerns(a) {
			out = append(out, Action{string(a.Verb), cmp.Or(a.Pod, a.Node, a.Pool), string(a.Reason), a.Detail})
		}
	}
	return out
}

// Number is v, nil if it is NaN or infinite: JSON has no such numbers.
func Number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Pool is a pool of the snapshot.
type Pool struct {
	Min         int      `json:"min"`
	Max         int      `json:"max"`
	Target      int      `json:"target"`
	Size        int      `json:"size"`
	CostPerHour float64  `json:"pricePerHour"` // of one node
	Spot        bool     `json:"spot,omitempty"`
	Fixed       bool     `json:"fixed,omitempty"` // without a provider; min and max are its size
	Frozen      bool     `json:"frozen,omitempty"`
	Model       string   `json:"model,omitempty"`
	Nodes       []Group  `json:"nodes,omitempty"`
	GPUs        []Group  `json:"gpus,omitempty"`
	WaitingFor  []string `json:"servesPods,omitempty"` // pods that the plan's actions on it are for
}

// Group counts nodes or GPUs that have the same verdict.
type Group struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Example string `json:"example"`
	Detail  string `json:"detail,omitempty"` // the example's
}

// ForPool explains a pool by name.
func ForPool(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return q.Name == name })
	if i < 0 {
		return Document{}, fmt.Errorf("pool %s: %w in the autoscaler's last snapshot: there is no such GPUNodePool, or its spec is not valid "+
			"(\"kubectl describe gpunodepool %s\" shows it)%s", name, ErrNotFound, name, list("; it has: ", s.Pools, func(q *plan.Pool) string { return q.Name }))
	}
	made := plan.Make(s, p)
	pool := &s.Pools[i]
	v := verdictOf(made, plan.KindPool, name)
	d := Document{APIVersion: Version, Kind: "Pool", Subject: name, At: s.Now.UTC(), Answer: answer(v.Reason, v.Detail)}
	d.Pool = &Pool{
		Min: pool.Min, Max: pool.Max, Target: pool.Target, Size: pool.Size, CostPerHour: pool.PricePerHour,
		Spot: pool.Spot, Fixed: pool.Fixed, Frozen: pool.Freeze || p.Freeze,
	}
	if len(pool.Template.GPUs) > 0 {
		d.Pool.Model = pool.Template.GPUs[0].Model.Name
	}
	of := map[string]bool{}
	for _, n := range s.Nodes {
		of[n.Name] = n.Pool == name
	}
	d.Pool.Nodes = groups(made, plan.KindNode, func(subject string) bool { return of[subject] })
	d.Pool.GPUs = groups(made, plan.KindGPU, func(subject string) bool {
		return of[subject[:max(0, strings.LastIndexByte(subject, '/'))]]
	})
	d.Actions = actionsWhere(made, func(a plan.Action) bool { return a.Pool == name })
	for _, a := range made.Actions {
		if a.Pool == name {
			d.Pool.WaitingFor = append(d.Pool.WaitingFor, a.For...)
		}
	}
	return d, nil
}

// groups counts verdicts by reason, the most frequent first.
func groups(p plan.Plan, kind plan.Kind, of func(subject string) bool) []Group {
	var out []Group
	for _, v := range p.Verdicts {
		if v.Kind != kind || !of(v.Subject) {
			continue
		}
		at := slices.IndexFunc(out, func(g Group) bool { return g.Reason == string(v.Reason) })
		if at < 0 {
			at, out = len(out), append(out, Group{Reason: string(v.Reason), Example: v.Subject, Detail: v.Detail})
		}
		out[at].Count++
	}
	slices.SortStableFunc(out, func(a, b Group) int { return b.Count - a.Count })
	return out
}

// needsChange are the reasons of pods that stay pending until users change something:
// their Events are warnings.
var needsChange = []plan.Reason{
	plan.QuotaExceeded, plan.NoPoolFits, plan.PoolAtMax, plan.CapacityKept, plan.PoolFixed, plan.RepartitionExhausted, plan.DemandUnreadable, plan.VolumeUnbound,
	plan.GangIncomplete, plan.GangWaits, plan.BorrowedWaits, plan.TooManyUnready, plan.Frozen,
}

// Note is the note of the Event for a pod's verdict. warns reports whether the pod stays
// pending until users change something; the note then ends with the remedy.
func Note(v plan.Verdict) (note string, warns bool) {
	warns = slices.Contains(needsChange, v.Reason)
	parts := []string{v.Detail}
	if warns {
		parts = append(parts, answer(v.Reason, "").WhatToDo)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		parts = []string{answer(v.Reason, "").Meaning}
	}
	return strings.Join(parts, ". "), warns
}

// Meaning is the meaning of a reason, empty for an unknown one.
func Meaning(reason plan.Reason) string { return answer(reason, "").Meaning }

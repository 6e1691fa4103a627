package explain

import (
	"math"
	"slices"
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
	GPUs     float64 `json:"gpus"` // Wants in GPUs
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

func verdictOf(p plan.Plan, kind plan.Kind, subject string) (plan.Verdict, bool) {
	i := slices.IndexFunc(p.Verdicts, func(v plan.Verdict) bool { return v.Kind == kind && v.Subject == subject })
	if i < 0 {
		return plan.Verdict{}, false
	}
	return p.Verdicts[i], true
}

func actionsWhere(p plan.Plan, concerns func(a plan.Action) bool) []Action {
	var out []Action
	for _, a := range p.Actions {
		if concerns(a) {
			on := a.Pool
			switch {
			case a.Pod != "":
				on = a.Pod
			case a.Node != "":
				on = a.Node
			}
			out = append(out, Action{string(a.Verb), on, string(a.Reason), a.Detail})
		}
	}
	return out
}

// number is v, nil if that is NaN or infinite.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

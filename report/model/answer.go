package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/report/query"
)

// Answer is section 0.
type Answer struct {
	Text    string   `json:"text" doc:"One paragraph."`
	Figures []Figure `json:"figures" doc:"The five numbers."`
	Quality Quality  `json:"quality" doc:"How far the data can be relied on."`
}

// Figure is one of the five numbers.
type Figure struct {
	Name  string `json:"name"`
	Value Number `json:"value"`
	Unit  string `json:"unit" doc:"\"hours\", \"share\" or \"money\"."`
	Note  string `json:"note" doc:"Its meaning in a few words."`
	Money Number `json:"money" doc:"What it cost."`
}

// Methods is section A.
type Methods struct {
	Text    []string `json:"text"`
	Steps   string   `json:"steps" doc:"How far apart values are."`
	Queries []Query  `json:"queries"`
}

// Query is a query that was sent.
type Query struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	Step   string `json:"step" doc:"Between values; empty for the end of the window."`
	PromQL string `json:"promql"`
}

// place returns the place of section 1 with this word.
func (h Hours) place(word string) Place {
	return h.Places[slices.IndexFunc(h.Places, func(p Place) bool { return p.Place == word })]
}

// sum adds up a place and those of the others whose hours are known. Without the autoscaler the place "free"
// contains fragmented and stranded hours.
func (h Hours) sum(first string, others ...string) (share, money Number) {
	share, money = h.place(first).Share, h.place(first).Money
	for _, word := range others {
		p := h.place(word)
		if _, ok := p.Hours.Get(); ok { // if only its money is unknown, so is the sum's
			share, money = share.Plus(p.Share), money.Plus(p.Money)
		}
	}
	return share, money
}

// unused is the time in which GPUs were not allocated.
func (h Hours) unused() (share, money Number) { return h.sum("free", "fragmented", "stranded") }

// mostBroken is the largest share of hours on broken GPUs and nodes that the answer does not mention.
const mostBroken = 0.01

// mostDark is the largest share of hours with unknown use for which the other hours still represent all.
const mostDark = 0.5

// dark is the share of hours with unknown use or unknown allocation. It is the larger of the share of all
// hours and the share of allocated hours.
func (h Hours) dark() float64 {
	unmeasured, allocated := h.place("unmeasured").Share.Or(0), 0.0
	for _, p := range h.Places {
		if p.Group == "allocated" || p.Group == "productive" {
			allocated += p.Share.Or(0)
		}
	}
	return max(unmeasured+h.place("unknown").Share.Or(0), Known(unmeasured).Over(Known(allocated)).Or(0))
}

func figures(h Hours, d Demand, a answers) []Figure {
	busy, idle := h.place("busy"), h.place("idle")
	unusedShare, unusedMoney := h.unused()
	switch {
	case h.place("unknown").Share.Or(0) > mostDark:
		why := Unknown("the allocation of more than half of the GPU-hours is unknown")
		busy.Share, idle.Share, unusedShare = why, why, why
	case h.dark() > mostDark:
		why := Unknown("the use of more than half of the GPU-hours, or of the allocated ones, is unknown")
		busy.Share, idle.Share = why, why
	}
	waited := Unknown(noAutoscaler)
	if a.Autoscaler {
		sum := Known(0)
		for _, u := range d.Unmet {
			sum = sum.Plus(u.Hours)
		}
		waited = a.unless(sum, query.Waiting)
	}
	return []Figure{
		{"Capacity", h.Capacity, "hours", "GPU-hours of all GPUs", h.Money},
		{"Computing", busy.Share, "share", "of the GPU-hours: pods computed", busy.Money},
		{"Allocated, idle", idle.Share, "share", "of the GPU-hours: allocated to pods that hardly computed", idle.Money},
		{"Not allocated", unusedShare, "share", "of the GPU-hours: free, fragmented or stranded", unusedMoney},
		{"Unserved", waited, "hours", "GPU-hours that pending pods requested and did not get", Unknown("demand has no price")},
	}
}

// paragraph is the answer in words. blank is the number of seconds without a record.
func paragraph(r *Report, blank float64) string {
	h, pending := r.Hours, ""
	if waited, ok := r.Answer.Figures[4].Value.Get(); ok && waited > 0 {
		pending = fmt.Sprintf("Pending pods requested %s GPU-hours and did not get them. ", digits(waited))
	}
	capacity, ok := h.Capacity.Get()
	if !ok {
		return strings.TrimSpace("Prometheus has no record of a GPU in this window. " + pending)
	}
	var b strings.Builder
	gpus := h.GPUs.Or(0)
	fmt.Fprintf(&b, "Over %s the cluster had %s %s on average", Duration(r.Window.Hours), digits(gpus), plural(gpus, "GPU", "GPUs"))
	if blank > 0.01*r.Window.Hours*hour {
		fmt.Fprintf(&b, " (in the %s with a record)", Duration(r.Window.Hours-blank/hour))
	}
	fmt.Fprintf(&b, ": %s GPU-hours", digits(capacity))
	if v, ok := h.Money.Get(); ok {
		fmt.Fprintf(&b, ", which cost %s %s", digits(v), r.Currency)
	}
	b.WriteString(". ")
	share := func(word string) string { return Share(h.place(word).Share) }
	if _, ok := h.place("busy").Share.Get(); ok && h.dark() <= mostDark {
		fmt.Fprintf(&b, "Of these, pods computed in %s; %s were allocated to such pods while they waited for work; %s were allocated to pods that hardly computed", share("busy"), share("slack"), share("idle"))
	} else {
		b.WriteString("How much pods computed on the GPUs is not known")
	}
	if v, _ := h.unused(); v.Or(0) > 0 && h.place("unknown").Share.Or(0) <= mostDark {
		fmt.Fprintf(&b, "; %s were not allocated", Share(v))
	}
	if v, _ := h.sum("sick", "unready"); v.Or(0) >= mostBroken {
		fmt.Fprintf(&b, "; %s were lost to broken GPUs and nodes", Share(v))
	}
	b.WriteString(". " + pending)
	if q := r.Answer.Quality; q.Grade != "good" {
		fmt.Fprintf(&b, "The data quality is %s: %s of the window has a record, and the use of %s GPU-hours is unknown.", q.Grade, percent(q.Coverage.Or(0)), digits(q.Unattributed.Or(0)))
	}
	return strings.TrimSpace(b.String())
}

// methods describes how the figures are computed.
func methods(a query.Answers) Methods {
	w := a.Window
	o := Methods{
		Steps: fmt.Sprintf("%s for queries with few series, %s for the autoscaler's counters, %s for series of each pod; scrape interval %s", w.Step, w.Ledger, w.Coarse, w.Scrape),
		Text: []string{
			"A GPU-hour is one whole GPU for one hour. A MIG instance counts as its part of the GPU's compute slices. A GPU that several containers share counts in equal parts for each of them.",
			"GPU-hours come from the autoscaler's counters, replica by replica. A value below the one before is a counter reset, and all of it counts. If a counter continues after a gap in the record, its growth is spread evenly over the gap. Time without a record of the autoscaler and of the exporter, between times with GPUs, is unknown.",
			fmt.Sprintf("Where only the exporter has a record, each value stands for the step before it. A node whose samples stop and return was present meanwhile; a node whose samples do not return is unknown for an hour and then counts as removed. A pod is idle while it uses less than 1 %% of its GPU; reclaiming its GPUs is proposed after %.3g idle minutes.", float64(query.IdleAfter)/60),
			"Computing is the time in which kernels ran, not how well they ran: a GPU that computes 100 % of the time may use little of its arithmetic.",
			"Quantiles of waiting times are interpolated within histogram buckets.",
			"Money is GPU-hours times the price of a GPU; where the pool is not known, the mean price of the pools with such GPUs. All hours have the prices of one day, which section 0 names. Savings of different actions overlap: do not add them up.",
			"Workloads are derived from the names of pods, because Prometheus does not have their owners.",
		},
	}
	for _, q := range a.Asked {
		step := ""
		if q.Step > 0 {
			step = q.Step.String()
		}
		o.Queries = append(o.Queries, Query{Name: string(q.ID), What: q.What, Step: step, PromQL: q.PromQL})
	}
	return o
}

package model

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Hours is section 1.
type Hours struct {
	Capacity Number   `json:"capacity" doc:"GPU-hours of all GPUs."`
	GPUs     Number   `json:"gpus" doc:"GPUs, mean over the time with a record."`
	Money    Number   `json:"money" doc:"What they cost."`
	Places   []Place  `json:"places" doc:"Each place in the order of the waterfall. Known hours add up to the capacity."`
	Over     []Bucket `json:"over" doc:"The same over time."`
	Sum      Number   `json:"sum" doc:"Hours of all places: within 0.1 % of capacity."`
	Notes    []string `json:"notes"`
}

// Place says how GPU-hours were used.
type Place struct {
	Place   string `json:"place" doc:"Word of the label place of gpuscale_autoscaler_gpu_seconds_total."`
	Group   string `json:"group" doc:"\"broken\", \"coming\", \"unknown\", \"unused\", \"allocated\" or \"productive\"."`
	Name    string `json:"name"`
	Hours   Number `json:"hours"`
	Share   Number `json:"share" doc:"Of the capacity."`
	Money   Number `json:"money"`
	Meaning string `json:"meaning"`
}

// Bucket is one part of the window in the picture over time.
type Bucket struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Hours is the time in each place, in the order of Hours.Places.
	Hours []Number `json:"hours" doc:"In the order of places."`
}

// placeText has the texts of a place.
type placeText struct {
	place          ledger.Place
	group          string
	name, meaning  string
	needAutoscaler bool
}

// waterfall lists the places in the order of section 1: from unusable to computing.
var waterfall = []placeText{
	{ledger.Sick, "broken", "Sick", "the GPU is broken", false},
	{ledger.Unready, "broken", "Node not ready", "the node should be ready and is not", true},
	{ledger.Booting, "coming", "Booting", "the node is starting", true},
	{ledger.Cordoned, "coming", "Cordoned", "free, on a node that takes no new pods", true},
	{ledger.Repartitioning, "coming", "Repartitioning", "the GPU is being repartitioned", true},
	{ledger.Unknown, "unknown", "Unknown", "there is no record, or the allocation is unknown", false},
	{ledger.Free, "unused", "Free", "in service and not allocated", false},
	{ledger.Fragmented, "unused", "Fragmented", "free, but its MIG layout, or where it is, fits no pod", true},
	{ledger.Stranded, "unused", "Stranded", "free, but its node has no CPU or memory left, or repels pods", true},
	{ledger.Idle, "allocated", "Allocated, idle", "allocated to a pod that hardly computes", false},
	{ledger.Slack, "allocated", "Allocated, between work", "allocated to a pod that computes, while it waits for work", false},
	{ledger.Unmeasured, "allocated", "Allocated, use unknown", "allocated, but its use was not measured", false},
	{ledger.Busy, "productive", "Computing", "allocated to a pod, and computing", false},
}

// hoursOf makes section 1.
func hoursOf(w query.Window, led ledger.Ledger, c pricing) Hours {
	none := Unknown("no record in the window")
	h := Hours{Capacity: none, GPUs: none, Sum: none}
	total := led.Total()
	if led.Capacity > 0 {
		h.Capacity, h.Sum = Known(led.Capacity/hour), Known(total.Sum()/hour)
		h.GPUs = Known(led.Capacity).Over(Known(w.Length().Seconds() - led.Blank))
	}
	h.Money = c.cost(func(r ledger.Row) float64 { return r.Time.Sum() })
	for _, p := range waterfall {
		place := Place{Place: p.place.String(), Group: p.group, Name: p.name, Meaning: p.meaning}
		place.Hours = placeHours(led, p, total, total[p.place])
		place.Share = place.Hours.Over(h.Capacity)
		place.Money = place.Hours
		if _, ok := place.Hours.Get(); ok {
			place.Money = c.cost(func(r ledger.Row) float64 { return r.Time[p.place] })
		}
		h.Places = append(h.Places, place)
	}
	h.Over = buckets(led)
	if led.FromExporter > 0 {
		h.Notes = append(h.Notes, fmt.Sprintf("For %s of the window only the exporter has a record. There, fragmented and stranded GPUs count as free, and so do GPUs of cordoned and booting nodes.", percent(led.FromExporter/w.Length().Hours()/hour)))
	}
	if led.Lost > 0 {
		h.Notes = append(h.Notes, fmt.Sprintf("%s GPU-hours are unknown, because the autoscaler did not run or was restarted.", digits(led.Lost/hour)))
	}
	return h
}

// notMeasured is the reason why a figure about use is unknown.
const notMeasured = "its use was not measured"

// placeHours is the time in a place. It is unknown for places that only the autoscaler distinguishes, if it
// has no record at all, and for places of use, if no use was measured. If there is a record for a part of the
// time, the hours are those of that part.
func placeHours(led ledger.Ledger, p placeText, total ledger.Time, seconds float64) Number {
	switch {
	case led.Capacity == 0:
		return Unknown("no record in the window")
	case p.needAutoscaler && led.FromAutoscaler == 0:
		return Unknown("only the autoscaler distinguishes it from free: " + noAutoscaler)
	case p.place.Allocated() && p.place != ledger.Unmeasured && total.Dark():
		return Unknown(notMeasured)
	}
	return Known(seconds / hour)
}

// cost sums the money of a part of each row's time; part returns seconds.
func (c pricing) cost(part func(ledger.Row) float64) Number {
	sum := Known(0)
	for _, r := range c.ledger.Rows {
		sum = sum.Plus(c.money(r.Pool, r.Model, part(r)/hour))
	}
	if len(c.ledger.Rows) == 0 {
		return Unknown("no record in the window")
	}
	if c.currency == "" {
		return Unknown(c.source)
	}
	return sum
}

// mostBuckets is the maximum number of parts in the picture over time.
const mostBuckets = 60

func buckets(led ledger.Ledger) []Bucket {
	g, total := led.Grid, led.Total()
	each := max(1, int(math.Ceil(float64(g.N)/mostBuckets)))
	var all []Bucket
	for k := 1; k <= g.N; k += each {
		end := min(g.N, k+each-1)
		var t ledger.Time
		for _, step := range led.Steps[k : end+1] {
			t.Add(step)
		}
		b := Bucket{From: g.At(k - 1), Until: g.At(end)}
		for _, p := range waterfall {
			n := placeHours(led, p, total, t[p.place])
			if t.Sum() == 0 {
				n = Unknown("no record")
			}
			b.Hours = append(b.Hours, n)
		}
		all = append(all, b)
	}
	return all
}

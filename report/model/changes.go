package model

import (
	"fmt"

	"github.com/gpuscale/gpuscale/report/query"
)

// Changes is section 9.
type Changes struct {
	Since   string    `json:"since" doc:"The window of the report before, or why there is none."`
	Figures []Change  `json:"figures"`
	Actions []Outcome `json:"actions" doc:"Outcome of the actions of the report before."`
}

// Change is a figure then and now.
type Change struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Before Number `json:"before"`
	Now    Number `json:"now"`
}

// Outcome is what an action was predicted to free a day, and what it has freed.
type Outcome struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Predicted Number `json:"predicted" doc:"GPU-hours a day."`
	Realised  Number `json:"realised" doc:"GPU-hours a day fewer than before; negative where it has become worse."`
	Verdict   string `json:"verdict"`
}

// changes compares with the report before.
func (m *maker) changes() Changes {
	p := m.Previous
	if p == nil {
		return Changes{Since: "There is no report before: give one with --previous."}
	}
	c := Changes{Since: fmt.Sprintf("%s to %s UTC, %.4g hours.", p.Window.From.UTC().Format("2006-01-02 15:04"), p.Window.Until.UTC().Format("2006-01-02 15:04"), p.Window.Hours)}
	add := func(name, unit string, before, now Number) {
		c.Figures = append(c.Figures, Change{Name: name, Unit: unit, Before: before, Now: now})
	}
	c.Since += m.doubts(p)
	add("GPUs, mean", "gpus", p.Hours.GPUs, m.r.Hours.GPUs)
	for _, now := range m.r.Hours.Places {
		before := Unknown("the report before does not have it")
		for _, b := range p.Hours.Places {
			if b.Place == now.Place {
				before = b.Share
			}
		}
		if before.Or(1) != 0 || now.Share.Or(1) != 0 {
			add(now.Name, "share", before, now.Share)
		}
	}
	for _, a := range p.Actions {
		if a.Effect == frees {
			c.Actions = append(c.Actions, m.outcome(p, a))
		}
	}
	return c
}

// doubts lists why a comparison may mislead.
func (m *maker) doubts(p *Report) string {
	text := ""
	if m.foreign(p) {
		text += " The two have no node pool in common: they may be of different clusters."
	}
	switch {
	case p.Window.Until.After(m.r.Window.Until):
		text += " It ends after this one: they may have been swapped."
	case p.Window.Until.After(m.r.Window.From):
		text += " The two windows overlap, so what has changed since shows less than it is."
	}
	if p.Currency != m.r.Currency {
		text += " Its money is in another currency, or has none."
	}
	return text
}

// foreign reports whether a report appears to be of another cluster.
func (m *maker) foreign(p *Report) bool {
	for _, a := range p.Pools {
		for _, b := range m.r.Pools {
			if a.Pool == b.Pool {
				return false
			}
		}
	}
	return len(p.Pools) > 0 && len(m.r.Pools) > 0
}

// enoughSeen is the share of a window with a record from which absence counts as gone.
const enoughSeen = 0.9

// perDay is over the time with a record: time without one frees nothing.
func (r *Report) perDay(n Number) Number {
	return n.Times(24).Over(r.Answer.Quality.Coverage.Times(r.Window.Hours))
}

// outcome compares an action's hours a day then and now. An action no longer proposed
// has none, if it could still be measured.
func (m *maker) outcome(p *Report, a Action) Outcome {
	o := Outcome{ID: a.ID, Title: a.Title, Predicted: p.perDay(a.Hours)}
	now := Known(0)
	seen := m.r.Answer.Quality.Coverage.Or(0)
	switch why := m.unmeasurable(a.Kind); {
	case why != "":
		now = Unknown(why)
	case seen < enoughSeen:
		now = Unknown(fmt.Sprintf("only %s of this window has a record", percent(seen)))
	}
	for _, b := range m.r.Actions {
		if b.ID == a.ID {
			now = m.r.perDay(b.Hours)
		}
	}
	if why := m.open(madeFrom[a.Kind]...); why != "" {
		now = Unknown(why) // a partial answer has too few hours
	}
	if m.foreign(p) {
		now = Unknown("the report before appears to be of another cluster")
	}
	o.Realised = o.Predicted.Plus(now.Times(-1))
	got, known := o.Realised.Get()
	want, _ := o.Predicted.Get()
	switch {
	case !known:
		o.Verdict = "unknown: " + o.Realised.Why()
	case want <= 0:
		o.Verdict = "unknown: nothing was predicted"
	case got >= 0.9*want:
		o.Verdict = "done"
	case got >= 0.1*want:
		o.Verdict = "in part"
	case got > -0.1*want:
		o.Verdict = "as before"
	default:
		o.Verdict = "worse"
	}
	return o
}

// madeFrom are the queries behind the hours of an action that frees GPUs.
var madeFrom = map[string][]query.ID{
	"reclaim":     {query.AllocatedTo, query.IdleFor},
	"right-size":  {query.AllocatedTo, query.MemoryP99, query.UseP95, query.InstUseP95},
	"replace":     {query.SickNodes},
	"shrink-pool": {query.GPUs, query.PoolNodes},
	"repartition": {query.GPUs},
	"strand":      {query.GPUs},
}

// unmeasurable is why a kind of action could not be found in this window.
func (m *maker) unmeasurable(kind string) string {
	switch kind {
	case "reclaim", "replace":
		if !m.a.Exporter {
			return noExporter
		}
	case "right-size":
		if !m.a.Exporter {
			return noExporter
		}
		if m.r.Window.Hours < evidenceHours {
			return "the window is too short for right-sizing"
		}
	default:
		if !m.a.Autoscaler {
			return noAutoscaler
		}
	}
	return ""
}

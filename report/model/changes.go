package model

import "fmt"

// changes compares with the report before.
func (m *maker) changes() Changes {
	p := m.Previous
	if p == nil {
		return Changes{Since: "There is no report before: give one with --previous."}
	}
	c := Changes{Since: fmt.Sprintf("%s to %s, %.4g hours", p.Window.From.Format("2006-01-02 15:04"), p.Window.Until.Format("2006-01-02 15:04"), p.Window.Hours)}
	add := func(name, unit string, before, now Number) {
		c.Figures = append(c.Figures, Change{Name: name, Unit: unit, Before: before, Now: now})
	}
	add("Cards, mean", "cards", p.Hours.Capacity.Over(Known(p.Window.Hours)), m.r.Hours.Capacity.Over(Known(m.r.Window.Hours)))
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

// outcome compares what an action was about a day then and now. What is no longer
// proposed is about nothing any more, if it could still be measured.
func (m *maker) outcome(p *Report, a Action) Outcome {
	o := Outcome{ID: a.ID, Title: a.Title, Predicted: perDay(a.Hours, p.Window.Hours)}
	now := Known(0)
	if why := m.unmeasurable(a.Kind); why != "" {
		now = Unknown(why)
	}
	for _, b := range m.r.Actions {
		if b.ID == a.ID {
			now = perDay(b.Hours, m.r.Window.Hours)
		}
	}
	o.Realised = o.Predicted.Plus(now.Times(-1))
	got, known := o.Realised.Get()
	want, _ := o.Predicted.Get()
	switch {
	case !known:
		o.Verdict = "cannot be told: " + o.Realised.Why()
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

func perDay(n Number, hours float64) Number { return n.Times(24).Over(Known(hours)) }

// unmeasurable says why a kind of action could not be found in this window.
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

package model

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/report/ledger"
)

const mostGaps = 20

// mostOver is how far places may claim more than the capacity before nothing is to
// be relied on. A scrape's time around a restart is no more than that.
const mostOver = 0.01

func (m *maker) quality() Quality {
	total := m.l.Total()
	window := m.a.Window.Length().Seconds()
	q := Quality{
		Coverage:     Known(min(1, (m.l.FromAutoscaler+m.l.FromExporter)/window)),
		Unattributed: Known((total[ledger.Unknown] + total[ledger.Unmeasured]) / hour),
		Prices:       m.cards.source,
	}
	switch {
	case m.l.FromAutoscaler > 0 && m.l.FromExporter > 0:
		q.Source = fmt.Sprintf("the autoscaler's counters for %s of the window, the exporter's series for %s", percent(m.l.FromAutoscaler/window), percent(m.l.FromExporter/window))
	case m.l.FromAutoscaler > 0:
		q.Source = "the autoscaler's counters"
	case m.l.FromExporter > 0:
		q.Source = "the exporter's series alone: " + noAutoscaler
	default:
		q.Source = "nothing"
	}
	for _, g := range m.l.Gaps[:min(mostGaps, len(m.l.Gaps))] {
		q.Gaps = append(q.Gaps, Gap{From: g.From, Until: g.To})
	}
	for _, p := range m.a.Problems {
		q.Problems = append(q.Problems, fmt.Sprintf("%s from %s to %s: %s", p.ID, p.From.UTC().Format(time.RFC3339), p.To.UTC().Format(time.RFC3339), p.Err))
	}
	if !m.a.Exporter {
		q.Problems = append(q.Problems, noExporter+"; who holds what, MIG, right-sizing and XID errors are missing")
	}
	if !m.a.Autoscaler {
		q.Problems = append(q.Problems, noAutoscaler+"; demand, quotas, pools and why free cards serve nobody are missing")
	}
	over := 0.0
	if m.l.Capacity > 0 {
		over = m.l.Over / m.l.Capacity
	}
	if over > ledger.Tolerance {
		q.Problems = append(q.Problems, fmt.Sprintf("the places claim %s more time than there was: it is counted as capacity, so neither can be relied on", percent(m.l.Over/(m.l.Capacity-m.l.Over))))
	}
	unknown := 0.0
	if m.l.Capacity > 0 {
		unknown = q.Unattributed.Or(0) * hour / m.l.Capacity
	}
	covered := q.Coverage.Or(0)
	switch {
	case over > mostOver:
		q.Grade = "poor"
	case len(m.a.Problems) == 0 && over <= ledger.Tolerance && covered >= 0.99 && unknown <= 0.01:
		q.Grade = "good"
	case covered >= 0.9 && unknown <= 0.1:
		q.Grade = "fair"
	default:
		q.Grade = "poor"
	}
	return q
}

// Incomplete says whether more than a twentieth of the window has no record, or a
// question went unanswered: who runs this in a script wants to know.
func (r Report) Incomplete() bool {
	return r.Answer.Quality.Coverage.Or(0) < 0.95 || r.Answer.Quality.Grade == "poor"
}

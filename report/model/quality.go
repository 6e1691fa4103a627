package model

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Quality says how reliable the data is.
type Quality struct {
	Grade        string       `json:"grade" doc:"\"good\" at 99 % coverage or more with 1 % of hours unknown or less, \"fair\" at 90 % and 10 %, else \"poor\"; where the places exceed the capacity by 0.1 % it is \"fair\" at best, with 1 % \"poor\"."`
	Coverage     Number       `json:"coverage" doc:"Share of the window of which there is a record."`
	Gaps         []ledger.Gap `json:"gaps" doc:"Times without a record, the longest first, at most 20."`
	Unattributed Number       `json:"unattributed" doc:"Hours in the places unknown and unmeasured."`
	Source       string       `json:"source" doc:"Series that the ledger is computed from."`
	Prices       string       `json:"prices" doc:"Where prices come from and of which day they are, or why there are none."`
	Problems     []string     `json:"problems" doc:"Queries without an answer."`
	Unanswered   []string     `json:"unanswered" doc:"Names of the queries in methods.queries of which a piece of the answer is missing: numbers computed from them are unknown, and rows may be missing or too low."`
}

const mostGaps = 20

// mostOver is by how much the places may exceed the capacity before the data counts as poor. It allows for
// one scrape interval around a restart.
const mostOver = 0.01

// qualityOf rates the data; priced says where prices come from.
func qualityOf(a answers, led ledger.Ledger, priced string) Quality {
	total := led.Total()
	window := a.Window.Length().Seconds()
	q := Quality{
		Coverage:     Known(min(1, (led.FromAutoscaler+led.FromExporter)/window)),
		Unattributed: Known((total[ledger.Unknown] + total[ledger.Unmeasured]) / hour),
		Prices:       priced,
		Gaps:         led.Gaps[:min(mostGaps, len(led.Gaps))],
	}
	switch {
	case led.FromAutoscaler > 0 && led.FromExporter > 0:
		q.Source = fmt.Sprintf("the autoscaler's counters for %s of the window, the exporter's series for %s", percent(led.FromAutoscaler/window), percent(led.FromExporter/window))
	case led.FromAutoscaler > 0:
		q.Source = "the autoscaler's counters"
	case led.FromExporter > 0:
		q.Source = "only the exporter's series: " + noAutoscaler
	default:
		q.Source = "nothing"
	}
	if n := len(a.Targets); n > 1 && len(a.Dialect.Trusted) == 0 {
		q.Source += fmt.Sprintf("; these come from scrape targets in %d namespaces (%s). Any pod that Prometheus scrapes can expose such series: --exporter-namespaces names the namespaces to trust",
			n, strings.Join(a.Targets[:min(5, n)], ", "))
	}
	for _, id := range a.Unanswered() {
		q.Unanswered = append(q.Unanswered, string(id))
	}
	for _, p := range a.Problems {
		q.Problems = append(q.Problems, fmt.Sprintf("%s from %s to %s: %s", p.ID, p.From.UTC().Format(time.RFC3339), p.To.UTC().Format(time.RFC3339), p.Err))
	}
	if !a.Exporter {
		q.Problems = append(q.Problems, noExporter+": allocations, MIG, right-sizing and XID errors are missing")
	}
	if !a.Autoscaler {
		q.Problems = append(q.Problems, noAutoscaler+": demand, quotas, pools, and why free GPUs serve no pod, are missing")
	}
	over, unknown := Known(led.Over/hour).Over(Known(led.Capacity/hour)).Or(0), q.Unattributed.Over(Known(led.Capacity/hour)).Or(0)
	if over > ledger.Tolerance {
		q.Problems = append(q.Problems, fmt.Sprintf("the places add up to %s more than the capacity: the excess is counted as capacity, so neither number is reliable", percent(led.Over/(led.Capacity-led.Over))))
	}
	twice := twins(a)
	if twice != "" {
		q.Problems = append(q.Problems, twice)
	}
	covered := q.Coverage.Or(0)
	switch {
	case over > mostOver:
		q.Grade = "poor"
	case len(a.Problems) == 0 && twice == "" && over <= ledger.Tolerance && covered >= 0.99 && unknown <= 0.01:
		q.Grade = "good"
	case covered >= 0.9 && unknown <= 0.1:
		q.Grade = "fair"
	default:
		q.Grade = "poor"
	}
	return q
}

// twins reports GPUs that two nodes export at the end, or that are exported as two models. Allocations are
// joined by UUID and count once, so the second copy looks free.
func twins(a answers) string {
	met := map[string]int{}
	for _, s := range a.Vectors[query.Devices] {
		met[s.Labels.Get(metric.LabelGPUUUID)]++
	}
	maps.DeleteFunc(met, func(_ string, n int) bool { return n == 1 })
	names := keys(met)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s exported by two nodes, or as two models, such as %s: the GPU counts twice, and its allocation once",
		len(names), plural(float64(len(names)), "UUID is", "UUIDs are"), names[0])
}

// Incomplete reports whether more than a twentieth of the window has no record, or a query was not answered
// completely.
func (r Report) Incomplete() bool {
	return r.Answer.Quality.Coverage.Or(0) < 0.95 || r.Answer.Quality.Grade == "poor" || len(r.Answer.Quality.Unanswered) > 0
}

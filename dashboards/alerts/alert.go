package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Severity says who is to hear of an alert, and how soon.
type Severity string

// Severities.
const (
	Critical Severity = "critical" // somebody gets up
	Warning  Severity = "warning"  // somebody looks within the day
	Info     Severity = "info"     // somebody may want to know
)

// Alert is one alerting rule.
type Alert struct {
	Name     string
	Severity Severity
	// Enabled is whether it is in the file unless somebody says otherwise.
	Enabled bool
	// Program whose series it reads first, "" for several. Where it is not installed
	// the alert is left out.
	Program metric.Owner
	// Threshold is what the value is compared with; nil where there is nothing to
	// choose: what is wrong is wrong.
	Threshold *float64
	// For is how long it has to be so.
	For time.Duration
	// Why the threshold and the time are what they are.
	Why string
	// Summary is a line; Description says what it means and what to do first. Both
	// may have Prometheus' templates in them.
	Summary, Description string
	// Labels beside severity.
	Labels map[string]string

	query func(Params) string
}

// Params are the parts of queries that differ from place to place. They are text and
// are put into queries as they are, so that a template of a chart can stand in for
// each.
type Params struct {
	Threshold string
	// Jobs are the scrape jobs by program.
	Jobs map[metric.Owner]string
}

// Query is the alert's PromQL.
func (a Alert) Query(p Params) string { return a.query(p) }

// Jobs returns the names of the scrape jobs where nobody chose others: those of the
// Services in deploy.
func Jobs() map[metric.Owner]string {
	return map[metric.Owner]string{
		metric.Exporter: "gpuscale-exporter", metric.Adapter: "gpuscale-adapter", metric.Autoscaler: "gpuscale-autoscaler",
	}
}

// Group is alerts that are evaluated together.
type Group struct {
	Name   string
	Alerts []Alert
}

// Groups returns the alerts as the file has them.
func Groups() []Group {
	return []Group{
		{"gpuscale.exporter", exporter()},
		{"gpuscale.cards", cards()},
		{"gpuscale.adapter", adapter()},
		{"gpuscale.autoscaler", autoscaler()},
		{"gpuscale.capacity", capacity()},
		{"gpuscale.series", []Alert{seriesMissing()}},
	}
}

// All returns every alert, in the file's order.
func All() []Alert {
	var all []Alert
	for _, g := range Groups() {
		all = append(all, g.Alerts...)
	}
	return all
}

// Find returns the alert of that name.
func Find(name string) (Alert, bool) {
	for _, a := range All() {
		if a.Name == name {
			return a, true
		}
	}
	return Alert{}, false
}

func at(threshold float64) *float64 { return &threshold }

// fixed is a query in which nothing can be chosen.
func fixed(query string) func(Params) string { return func(Params) string { return query } }

package alerts

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Severity is how soon an alert needs attention.
type Severity string

// Severities.
const (
	Critical Severity = "critical" // page at once
	Warning  Severity = "warning"  // look within the day
	Info     Severity = "info"     // for information
)

// Alert is one alerting rule.
type Alert struct {
	Name     string
	Severity Severity
	// Program whose series it reads first, "" for several. Where it is not installed
	// the alert is left out.
	Program metric.Owner
	// Threshold is what the value is compared with; nil where there is none.
	Threshold *float64
	// For is how long the condition must hold.
	For time.Duration
	// Why explains the threshold and the time.
	Why string
	// Summary is a line; Description has the meaning and what to do first. Both may have
	// Prometheus' templates in them.
	Summary, Description string

	query func(Params) string
}

// Params are the parts of queries that installations configure, put into queries as they are.
type Params struct {
	Threshold string
	// Jobs are the scrape jobs by program.
	Jobs map[metric.Owner]string
	// Trusted is the matcher of trusted targets, sources.Matcher where it is empty.
	Trusted string
}

// Query is the alert's PromQL, over series of trusted targets only. It panics where the alert's own
// text is no PromQL, which a test finds.
func (a Alert) Query(p Params) string {
	query, err := sources.Trusted(a.query(p), cmp.Or(p.Trusted, sources.Matcher))
	if err != nil {
		panic(fmt.Sprintf("alert %s: %v", a.Name, err))
	}
	return query
}

// Jobs returns the default names of the scrape jobs: those of the Services in deploy.
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
		{"gpuscale.gpus", gpus()},
		{"gpuscale.adapter", adapter()},
		{"gpuscale.autoscaler", autoscaler()},
		{"gpuscale.capacity", capacity()},
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

// fixed is a query without parameters.
func fixed(query string) func(Params) string { return func(Params) string { return query } }

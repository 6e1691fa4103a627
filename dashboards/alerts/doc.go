// Package alerts has the alerts over the series of gpu/metric, as data.
// gpuscale-alerts.yaml is written from here by make generate.
//
// An alert reads series as they are scraped, no recording rule, so each can be used on
// its own; Prometheus may scrape with honor_labels or without. No missing series becomes
// 0: an alert over it cannot fire, and a test finds one that no program emits. Programs
// that are gone altogether have alerts of their own. Every alert has a page in
// docs/runbooks.
package alerts

// Package alerts is what people are paged or asked for: alerts over the series of
// gpu/metric, as data. gpuscale-alerts.yaml is written from here by make generate.
//
// An alert reads series as they are scraped, no recording rule, so each can be taken
// or left alone; Prometheus may scrape with honor_labels or without. Nothing is made
// 0: where a series is gone an alert over it cannot fire, so GpuscaleSeriesMissing
// watches for that, and programs that are gone altogether have alerts of their own.
// Every alert has a page in docs/runbooks.
package alerts

// Package alerts has the alerts over the series of gpu/metric, as data.
// gpuscale-alerts.yaml is written from here by make generate.
//
// An alert reads series as they are scraped and no recording rules, so each alert can be used on its own. It
// works with honor_labels and without. A missing series never becomes 0: the alert does not fire, and a test
// finds series that no program emits. Separate alerts report programs that are gone. Every alert has a page
// in docs/runbooks.
package alerts

// Package rules has the recording rules: sums that boards would otherwise compute of
// tens of thousands of series at each refresh. A rule is named level:metric:operation,
// where the level is the labels that are left, each beside cluster.
// The chart's files/recording.yaml is written from here by make generate.
//
// Each rule reads series of trusted targets (package sources) as they are scraped and no other rule, whether Prometheus
// scrapes with honor_labels or without. An unknown value gives no series, never 0.
package rules

// Package rules is the recording rules: sums that boards, alerts and the capacity
// report would otherwise make of tens of thousands of series each time somebody
// looks. A rule is named level:metric:operation, where the level is the labels that
// are left, each beside cluster. gpuscale-recording.yaml is written from here;
// go test ./dashboards/rules -update writes it again.
//
// Each rule reads series as they are scraped and no other rule, whether Prometheus
// scrapes with honor_labels or without. What nobody knows gives no series, and no
// rule makes it 0.
package rules

// Package rules contains the recording rules. They precompute sums that boards would otherwise compute from
// tens of thousands of series at each refresh. A rule is named level:metric:operation. The level lists the
// labels that are kept; cluster is always kept too. The chart's files/recording.yaml is written from here by
// make generate.
//
// A rule reads only series of trusted targets (package sources), as they are scraped, and no other rule. It
// works with honor_labels and without. An unknown value gives no series, never 0.
package rules

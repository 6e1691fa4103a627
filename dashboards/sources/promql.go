package sources

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// LabelCluster is added by users with several clusters.
const LabelCluster = "cluster"

// On writes labels that identify something, the cluster's first.
func On(labels ...string) string {
	return strings.Join(append([]string{LabelCluster}, labels...), ", ")
}

// By aggregates by cluster and some labels.
func By(op, expr string, labels ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, On(labels...), expr)
}

// Own restores the labels that Prometheus moved to exported_*, where it scrapes without
// honor_labels.
func Own(expr string, labels ...string) string {
	for _, l := range labels {
		expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", expr, l, metric.Exported+l)
	}
	return expr
}

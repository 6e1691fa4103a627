package alerts

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// labelCluster is added by users with several clusters, and labelInstance is the scrape
// target, which none of our programs sets itself.
const (
	labelCluster  = "cluster"
	labelInstance = "instance"
)

func by(op, expr string, labels ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, on(labels...), expr)
}

func sum(expr string, labels ...string) string { return by("sum", expr, labels...) }

// most merges duplicate series, or takes the worst of several.
func most(expr string, labels ...string) string  { return by("max", expr, labels...) }
func least(expr string, labels ...string) string { return by("min", expr, labels...) }

// group returns the label sets, without their values.
func group(expr string, labels ...string) string { return by("group", expr, labels...) }

func on(labels ...string) string {
	return strings.Join(append([]string{labelCluster}, labels...), ", ")
}

// of is a selector.
func of(d metric.Desc, matchers ...string) string {
	if len(matchers) == 0 {
		return d.Name
	}
	return d.Name + "{" + strings.Join(matchers, ", ") + "}"
}

// wasThere is a series of the last day: absence is a fault only of what was there. Where a
// program is not scraped at all, an alert on absent() would fire for ever.
func wasThere(selector string) string { return group("last_over_time(" + selector + "[1d])") }

// happened is the growth of a counter whose series begin with the first event, which
// increase alone misses: a new one counts from 0. Its value before is searched over a
// day, since Prometheus may have been down: a series that returns after its restart is
// not new.
func happened(selector, in string, labels ...string) string {
	now, before := fmt.Sprintf("last_over_time(%s[%s])", selector, in), fmt.Sprintf("last_over_time(%s[1d] offset %s)", selector, in)
	return sum(now+" - ("+before+" <= "+now+" or "+now+" * 0)", labels...)
}

// own restores the labels that Prometheus moved to exported_*, where it scrapes without
// honor_labels.
func own(expr string, labels ...string) string {
	for _, l := range labels {
		expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", expr, l, metric.Exported+l)
	}
	return expr
}

// named adds a label to every series of an expression.
func named(expr, label, value string) string {
	return fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", expr, label, value)
}

// up is the targets of a program.
func up(p Params, program metric.Owner) string { return `up{job="` + p.Jobs[program] + `"}` }

// leads keeps the leader's series. A former leader keeps exposing ages, which only grow.
func leads(expr string) string {
	return fmt.Sprintf("%s and on (%s) %s == 1", expr, on(labelInstance), metric.AutoscalerLeader.Name)
}

package alerts

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// labelInstance is the scrape target, which none of our programs sets itself.
const labelInstance = "instance"

func sum(expr string, labels ...string) string { return sources.By("sum", expr, labels...) }

// most merges duplicate series, or keeps the worst of several.
func most(expr string, labels ...string) string  { return sources.By("max", expr, labels...) }
func least(expr string, labels ...string) string { return sources.By("min", expr, labels...) }

// group keeps the label sets of an expression and drops the values.
func group(expr string, labels ...string) string { return sources.By("group", expr, labels...) }

// of is a selector.
func of(d metric.Desc, matchers ...string) string {
	if len(matchers) == 0 {
		return d.Name
	}
	return d.Name + "{" + strings.Join(matchers, ", ") + "}"
}

// wasThere selects series that had a sample within the last day. An absence is a fault only for those:
// absent() would fire forever where a program is never scraped.
func wasThere(selector string) string { return group("last_over_time(" + selector + "[1d])") }

// happened returns the growth of a counter whose series begin with the first event; increase misses that
// event. A new series counts from 0. Its earlier value is looked up over a day: after an outage of Prometheus
// a series is not new.
func happened(selector, in string, labels ...string) string {
	now, before := fmt.Sprintf("last_over_time(%s[%s])", selector, in), fmt.Sprintf("last_over_time(%s[1d] offset %s)", selector, in)
	return sum(now+" - ("+before+" <= "+now+" or "+now+" * 0)", labels...)
}

// named adds a label to every series of an expression.
func named(expr, label, value string) string {
	return fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", expr, label, value)
}

// up returns the targets of a program, by the default name of its scrape job.
func up(program metric.Owner) string { return `up{job="gpuscale-` + string(program) + `"}` }

// leads keeps the leader's series. A former leader still exposes ages, and these only grow.
func leads(expr string) string {
	return fmt.Sprintf("%s and on (%s) %s == 1", expr, sources.On(labelInstance), metric.AutoscalerLeader.Name)
}

package alerts

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// labelCluster is what people add where the series of several clusters meet, and
// labelInstance the scrape target, which none of our programs sets itself.
const (
	labelCluster  = "cluster"
	labelInstance = "instance"
)

func by(op, expr string, labels ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, on(labels...), expr)
}

func sum(expr string, labels ...string) string { return by("sum", expr, labels...) }

// most is of a thing that several say the same of, or the worst of several.
func most(expr string, labels ...string) string  { return by("max", expr, labels...) }
func least(expr string, labels ...string) string { return by("min", expr, labels...) }

// group says which label sets there are, and nothing of their values.
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

// happened is how much a counter grew whose series begin with the first event, which
// increase alone never sees: one that was not there before counts from 0. What it was
// before is looked for over a day, since Prometheus may have been away just then: what
// it finds again after its restart is no news.
func happened(selector, in string, labels ...string) string {
	now, before := fmt.Sprintf("last_over_time(%s[%s])", selector, in), fmt.Sprintf("last_over_time(%s[1d] offset %s)", selector, in)
	return sum(now+" - ("+before+" <= "+now+" or "+now+" * 0)", labels...)
}

// own brings the labels back that Prometheus moved out of the target's way, where it
// scrapes without honor_labels.
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

// leads keeps what the replica says that decides. A replica that led once goes on
// telling how old things are, and they get no younger.
func leads(expr string) string {
	return fmt.Sprintf("%s and on (%s) %s == 1", expr, on(labelInstance), metric.AutoscalerLeader.Name)
}

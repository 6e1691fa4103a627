package scenario

import (
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// Print writes a snapshot as scenario text. Parse of it gives an equal snapshot
// for every snapshot that passes Check: times to the nanosecond, in UTC; empty
// lists as nil; of a forecast's Like its requests, placement rules and tenant.
func Print(s plan.Snapshot) string {
	var b strings.Builder
	b.WriteString("tick" + written(s.Now, func(x *fields) { tickFields(x, &s) }) + "\n")
	for _, t := range s.Tenants {
		b.WriteString(quotaText(t))
	}
	for _, p := range s.Pools {
		b.WriteString(poolText(p, s.Now))
	}
	for _, n := range s.Nodes {
		b.WriteString(nodeText(n, s.Now))
	}
	for _, p := range s.Pods {
		b.WriteString(podText(p, s.Now))
	}
	for _, f := range s.Forecasts {
		b.WriteString(forecastText(f, s.Now))
	}
	return b.String()
}

package scenario

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// Print writes a snapshot as scenario text. Parse of it gives an equal snapshot
// for every snapshot that passes Check: times to the nanosecond, in UTC; empty
// lists come back nil; of a forecast's Like what it asks for, where it may run
// and on whose account.
func Print(s plan.Snapshot) string {
	var b strings.Builder
	b.WriteString("tick at=" + quote("@"+s.Now.UTC().Format(time.RFC3339Nano)))
	b.WriteString(tablesText(s.Tables))
	b.WriteString(memoryText(s.State, s.Now))
	b.WriteByte('\n')
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

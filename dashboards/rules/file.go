package rules

import (
	"fmt"
	"strings"
)

// Interval between two evaluations. It is longer than the scrape's, since boards show minutes.
const Interval = "30s"

// SlowInterval is for expensive rules of values that change rarely: MIG layouts.
const SlowInterval = "1m"

// YAML returns the rules as Prometheus reads them.
func YAML() []byte {
	var b strings.Builder
	b.WriteString("# Written from dashboards/rules; make generate writes it again.\ngroups:\n")
	for _, g := range Groups() {
		fmt.Fprintf(&b, "- name: %s\n  interval: %s\n  rules:\n", g.Name, g.Interval)
		for _, r := range g.Rules {
			fmt.Fprintf(&b, "  # %s\n  - record: %s\n    expr: |-\n      %s\n", r.Help, r.Record, r.Expr)
		}
	}
	return []byte(b.String())
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

const generated = "<!-- Written by internal/gendocs; run `make generate` after changing the source. -->\n\n"

// metricsPage is docs/metrics.md. ofSignals are series that docs/signals.md has.
func metricsPage(ours []metric.Desc, theirs []metric.Read, ofSignals []string) string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + generated)
	b.WriteString("Every series that gpuscale emits or reads. Values are in base units: seconds, bytes, ratios from 0 to 1.\n" +
		"An unknown value is absent, never 0. Labels in brackets are absent where they do not apply.\n" +
		"A series may change in any release, unless it is marked `stable`: then it is renamed only with both names served for a year.\n")
	for _, owner := range []metric.Owner{metric.Exporter, metric.Adapter, metric.Autoscaler, metric.Agent} {
		fmt.Fprintf(&b, "\n## %s%s\n\n", strings.ToUpper(string(owner[:1])), owner[1:])
		b.WriteString("| series | type | labels | meaning |\n|---|---|---|---|\n")
		for _, d := range ours {
			if d.Owner == owner {
				row(&b, "`"+d.Name+"`", string(d.Type), labels(d), d.Help+mark(d.Stability))
			}
		}
	}
	b.WriteString("\n## Read from others\n\n[signals.md](signals.md) has the series that signals are computed from. Boards and the report read these too:\n\n" +
		"| series | server | type | meaning |\n|---|---|---|---|\n")
	for _, r := range theirs {
		if !slices.Contains(ofSignals, r.Name) {
			row(&b, "`"+r.Name+"`", r.Server, string(r.Type), r.Help)
		}
	}
	return b.String()
}

// mark of a series that is not alpha.
func mark(s metric.Stability) string {
	if s == metric.Alpha {
		return ""
	}
	return " `" + string(s) + "`"
}

func labels(d metric.Desc) string {
	words := append([]string{}, d.Labels...)
	if len(d.Optional) > 0 {
		words = append(words, "["+strings.Join(d.Optional, " ")+"]")
	}
	return strings.Join(words, " ")
}

// reasonsPage is docs/reasons.md.
func reasonsPage(reasons []plan.ReasonDoc) string {
	var b strings.Builder
	b.WriteString("# Reasons\n\n" + generated)
	b.WriteString("Every answer of the autoscaler has one of these words: in Events, conditions, log lines, metric labels and here.\n\n")
	b.WriteString("| reason | about | meaning | what to do |\n|---|---|---|---|\n")
	for _, r := range reasons {
		do := r.WhatToDo
		if do == "" {
			do = "Nothing."
		}
		row(&b, "`"+string(r.Reason)+"`", r.Kind, r.Meaning, do)
	}
	return b.String()
}

// row writes one line of a table.
func row(b *strings.Builder, cells ...string) {
	for _, c := range cells {
		b.WriteString("| " + strings.NewReplacer("|", `\|`, "\n", " ").Replace(c) + " ")
	}
	b.WriteString("|\n")
}

package main

import (
	_ "embed"
	"strings"

	"github.com/gpuscale/gpuscale/report/doctor"
)

//go:embed text/doctor.txt
var doctorIntroduction string

// doctorPage is docs/doctor.md.
func doctorPage(checks []doctor.Check) string {
	var b strings.Builder
	b.WriteString("# What is wrong here?\n\n" + generated + doctorIntroduction)
	b.WriteString("\n## Checks\n\n| id | finds | which means |\n|---|---|---|\n")
	for _, c := range checks {
		row(&b, "`"+c.ID+"`", c.Fault, c.Means)
	}
	b.WriteString("\n## Rights\n\nA check whose source you may not read is unknown and names the right. `report/doctor/source.go` has the queries to Prometheus.\n\n| source | right |\n|---|---|\n")
	for _, d := range doctor.Table {
		if d.Query == "" {
			row(&b, d.Name, "`"+d.Right()+"`")
		}
	}
	return b.String()
}

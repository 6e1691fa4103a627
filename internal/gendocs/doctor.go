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
	b.WriteString("\n## Checks\n\n| id | what it finds | what that means |\n|---|---|---|\n")
	for _, c := range checks {
		row(&b, "`"+c.ID+"`", c.Fault, c.Means)
	}
	b.WriteString("\n## Permissions\n\nIf you lack a permission, the checks that need it are unknown and name it. The queries to Prometheus are in `report/doctor/source.go`.\n\n| source | permission |\n|---|---|\n")
	for _, d := range doctor.Table {
		if d.Query == "" {
			row(&b, d.Name, "`"+d.Right()+"`")
		}
	}
	return b.String()
}

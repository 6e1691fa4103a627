package main

import (
	"strings"

	"github.com/gpuscale/gpuscale/report/doctor"
)

const doctorIntroduction = `    kubectl -n monitoring port-forward svc/prometheus-operated 9090 &
    gpuscale-report doctor --prometheus http://localhost:9090

checks the installation and reports problems: what was found, its effect, a fix, and commands to paste. It only reads (GET), with your own rights; it reads no Secret and
queries no pod. It finds gpuscale's namespace by itself; ` + "`-n`" + ` sets it. Without ` + "`--prometheus`" + ` the checks that need it are unknown.

| result | means |
|---|---|
| ok | checked, and as it should be |
| warning | it will break, or it may be intended (a freeze) |
| fault | something does not work |
| unknown | it could not be checked: a right that you lack (it is named), a Prometheus that does not answer, a bound |
| skipped | it does not apply: no adapter, no quota |

| exit code | means |
|---|---|
| 0 | nothing is wrong |
| 1 | it failed, or gpuscale is not installed in the cluster |
| 2 | the command line is wrong |
| 3 | warnings or unknown checks, and no fault |
| 4 | faults |

- ` + "`--only ID,ID`" + ` runs some checks; ` + "`--list`" + ` lists them and what each reads. ` + "`-o json`" + ` is for programs (schema ` + "`gpuscale.io/doctor/v1`" + `): ` + "`checks[]`" + ` with ` + "`id`, `result`, `why`" + ` and
  ` + "`findings[]`" + ` (` + "`severity`, `object`, `seen`, `means`, `fix`, `commands`" + `); ` + "`faults` and `warnings`" + ` count findings, ` + "`unknown`" + ` counts checks.
- Twenty findings of a check are listed, the rest is counted. At most 20,000 objects of a kind and 400 calls are read; what lies beyond makes a check unknown.
- Commands are quoted for a shell and go to the cluster that was checked (` + "`--kubeconfig` and `--context`" + ` are passed on). Read them before you paste them: a fix changes something.
  ` + "`deploy/…`" + ` in a command is a path in the source.
- Names and messages of others are printed without control characters and truncated. Ages are by the API server's clock.
`

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

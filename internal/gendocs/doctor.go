package main

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/report/doctor"
)

const doctorIntroduction = `    kubectl -n monitoring port-forward svc/prometheus-operated 9090 &
    gpuscale-report doctor --prometheus http://localhost:9090

looks at what is installed, in one go, and reports problems: what was found, its effect, a fix, and commands to paste. It only
reads (GET, nothing else), with your own rights. It finds gpuscale's namespace by itself; ` + "`-n`" + ` says it. Without ` + "`--prometheus`" + ` the checks that
need it are not known.

| result | means |
|---|---|
| ok | it was looked at, and is as it should be |
| warning | it will break, or it is perhaps meant (a freeze) |
| fault | something does not work |
| unknown | it could not be looked at: a right that you lack (it is named), a Prometheus that does not answer, a bound. Never taken for ok |
| skipped | it does not apply: no adapter, no quota |

| exit code | means |
|---|---|
| 0 | nothing is wrong |
| 1 | it failed, or gpuscale is not installed in the cluster |
| 2 | the command line is wrong |
| 3 | warnings, or checks that are not known, and no fault |
| 4 | faults |

- ` + "`--only ID,ID`" + ` runs some checks; ` + "`--list`" + ` lists them. ` + "`-o json`" + ` is for programs (schema ` + "`gpuscale.io/doctor/v1`" + `): ` + "`checks[]`" + ` with ` + "`id`, `result`, `why`" + ` and
  ` + "`findings[]`" + ` (` + "`severity`, `object`, `seen`, `means`, `fix`, `commands`" + `); ` + "`faults` and `warnings`" + ` count findings, ` + "`unknown`" + ` counts checks.
- Of a check, twenty findings are listed and the rest counted. Lists are read 500 at a time, 20,000 objects of a kind and 400 calls at most; what lies beyond makes a check unknown.
- Commands name the objects at hand, are quoted for a shell, and go to the cluster that was looked at (` + "`--kubeconfig` and `--context`" + ` are passed on). Read them before you paste them: a fix
  changes something, doctor never does. Where only you can know what was meant, the commands show more and change nothing. ` + "`deploy/…`" + ` in a command is a path in the source.
- Names, labels and messages of others are printed without control characters and truncated; what cannot be pasted safely is in no command.
- Ages are by the API server's clock.

It reads no Secret, and asks no pod. What a certificate says that the adapter serves is therefore known only by what the API server says about it, and by the authority that the APIService names.
`

// doctorPage is docs/doctor.md.
func doctorPage(checks []doctor.Check) string {
	var b strings.Builder
	b.WriteString("# What is wrong here?\n\n" + generated + doctorIntroduction)
	b.WriteString("\n## Checks\n\n| id | finds | which means | looks at |\n|---|---|---|---|\n")
	for _, c := range checks {
		row(&b, "`"+c.ID+"`", c.Fault, c.Means, strings.Join(doctor.Names(c.Looks), ", "))
	}
	b.WriteString("\n## Rights and questions\n\nWhat is read, and the right that each needs. A check whose source you may not read is unknown.\n\n| source | right |\n|---|---|\n")
	for _, d := range doctor.Table {
		if d.Query == "" {
			row(&b, string(d.Source), "`"+d.Right+"`")
		}
	}
	b.WriteString("\nPrometheus is asked these, each once; a name with a dollar takes the matchers of `--match`:\n\n| question | query |\n|---|---|\n")
	for _, d := range doctor.Table {
		if d.Query != "" {
			row(&b, strings.TrimPrefix(string(d.Source), "prometheus: "), fmt.Sprintf("`%s`", d.Query))
		}
	}
	return b.String()
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gpuscale/gpuscale/internal/release/vuln"
)

// govulncheck is an older version than the newest: those need modules that not
// every proxy has.
const govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.8.0"

// vulnCommand fails where vulnerabilities were found, and where -require is
// given and nobody could look. Else "NOT CHECKED" is a line, and no failure: a
// machine without a network can still run the tests.
func vulnCommand(ctx context.Context, args []string, out io.Writer) error {
	var tool string
	var require bool
	flags := flag.NewFlagSet("release vuln", flag.ContinueOnError)
	flags.StringVar(&tool, "govulncheck", "", "where govulncheck is; it is built there if it is not")
	flags.BoolVar(&require, "require", false, "fail where it could not look")
	if err := flags.Parse(args); err != nil {
		return err
	}
	what := "the programs"
	answer, why := vuln.Check(ctx, vuln.Options{Tool: tool, Install: govulncheck, DB: os.Getenv("GOVULNDB"), Args: flags.Args(), Out: out})
	fmt.Fprintln(out, answer.Say(what, why))
	switch {
	case answer == vuln.Found:
		return errors.New("known vulnerabilities, see above")
	case answer == vuln.NotChecked && require:
		return errors.New("vulnerabilities could not be looked for")
	default:
		return nil
	}
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes. They are in --help, and scripts rely on them.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitIncomplete = 3
	exitFaulty     = 4 // of doctor alone
)

const exitHelp = `Exit codes:
  0  done
  1  it failed: Prometheus, a file, or there is no data
  2  the command line is wrong
  3  done, but less than 95 % of the window has a record, the data's
     quality is poor, or a query was not answered in full: do not draw
     conclusions from it in a script
`

// usage marks an error in the command line.
type usage struct{ error }

// incomplete marks a report that was written and that has gaps.
type incomplete struct{ error }

// faulty marks an installation with faults.
type faulty struct{ error }

func exitCode(err error) int {
	var asked usage
	var broken faulty
	var holes incomplete
	var other passed
	switch {
	case errors.As(err, &other):
		return int(other)
	case err == nil:
		return exitOK
	case errors.As(err, &asked):
		return exitUsage
	case errors.As(err, &holes):
		return exitIncomplete
	case errors.As(err, &broken):
		return exitFaulty
	}
	return exitFailed
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage{fmt.Errorf("%q is neither a command nor an argument of %s; see its --help", args[0], cmd.CommandPath())}
	}
	return nil
}

package main

import (
	"context"
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
  0  it is done
  1  it failed: Prometheus, a file, or there is nothing to report on
  2  the command line is wrong
  3  it is done, but less than 95 % of the window has a record, the data's
     quality is poor, or a question went without a whole answer: do not draw
     conclusions from it in a script
`

// usage marks an error in the command line.
type usage struct{ error }

// incomplete marks a report that was written and that has holes.
type incomplete struct{ error }

// faulty marks an installation in which something does not work.
type faulty struct{ error }

func exitCode(err error) int {
	var asked usage
	var broken faulty
	var holes incomplete
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &asked):
		return exitUsage
	case errors.As(err, &holes):
		return exitIncomplete
	case errors.As(err, &broken):
		return exitFaulty
	case errors.Is(err, context.Canceled):
		return exitFailed
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

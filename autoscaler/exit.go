package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/autoscaler/explain"
)

// Exit codes. They are in --help, and scripts rely on them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitSnapshot = 3
	exitNotFound = 4
)

// usage marks an error in the command line.
type usage struct{ error }

// badSnapshot marks a file that was read but is not a valid snapshot.
type badSnapshot struct{ error }

// exitCode is the program's exit code. Ending by a signal is no failure.
func exitCode(err error) int {
	var asked usage
	var file badSnapshot
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return exitOK
	case errors.As(err, &asked):
		return exitUsage
	case errors.As(err, &file):
		return exitSnapshot
	case errors.Is(err, explain.ErrNotFound), errors.Is(err, explain.ErrNotPending):
		return exitNotFound
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

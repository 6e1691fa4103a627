package main

import (
	"errors"
	"fmt"
	"strings"

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

// coded is an error with an exit code of its own; others are exitFailed.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// usage marks an error in the command line, incomplete a report that was written and has gaps.
func usage(err error) error      { return coded{err, exitUsage} }
func incomplete(err error) error { return coded{err, exitIncomplete} }

// errWritten is of another program, which has written its error itself.
var errWritten = errors.New("another program failed")

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return exitFailed
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := "see its --help"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usage(fmt.Errorf("%q is neither a command nor an argument of %s; %s", args[0], cmd.CommandPath(), hint))
	}
	return nil
}

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/strict"
)

// Setup completes a program's command, whose subcommands follow it: main prints its errors, flags are
// wrapped at 80 columns in the help, and mistakes in flags are [Usage] errors. It adds the
// subcommand version.
func Setup(root *cobra.Command, program string) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SuggestionsMinimumDistance = 2 // letters
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(strict.Example(err)) })
	root.AddCommand(newVersion(program))
}

// usage marks an error in the command line.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// Usage marks an error in the command line, for which most programs have an exit code of its own.
func Usage(err error) error { return usage{err} }

// IsUsage reports whether the command line is at fault.
func IsUsage(err error) bool {
	_, is := errors.AsType[usage](err)
	return is
}

// NoArgs is cobra.NoArgs as a [Usage] error, which names a command that may have been meant.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see its --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usage(fmt.Errorf("%q is neither a command nor an argument of %s; %s", args[0], cmd.CommandPath(), hint))
}

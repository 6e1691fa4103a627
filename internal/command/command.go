package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/internal/strict"
)

// Setup completes a program's command before its subcommands are added: main prints its errors, flags
// are wrapped at 80 columns in the help, and mistakes in flags are [Usage] errors. It adds the
// subcommand version.
func Setup(root *cobra.Command, program string) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SuggestionsMinimumDistance = 2 // letters
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(strict.Example(mistyped(cmd, err))) })
	root.AddCommand(newVersion(program))
}

// usage marks an error in the command line.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

// Usage marks an error in the command line. Most programs have a separate exit code for it.
func Usage(err error) error { return usage{err} }

// IsUsage reports whether the command line is at fault.
func IsUsage(err error) bool {
	_, is := errors.AsType[usage](err)
	return is
}

// NoArgs is cobra.NoArgs with a [Usage] error that names a command that may have been meant.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usage(fmt.Errorf("%q is neither a command nor an argument of %s; %s", args[0], cmd.CommandPath(), hint(cmd.SuggestionsFor(args[0]))))
}

// mistyped adds the flags that may have been meant to an error about an unknown flag, and the values of a
// flag that takes one of several words.
func mistyped(cmd *cobra.Command, err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is && invalid.GetFlag().Value.Type() == "" { // a TextVar
		return fmt.Errorf("%w; want %s", err, invalid.GetFlag().Usage)
	}
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return err
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra compares names of commands alone
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(unknown.GetSpecifiedName()) > 1 {
			flags.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return fmt.Errorf("%w; %s", err, hint(flags.SuggestionsFor("--"+unknown.GetSpecifiedName())))
}

// hint names what may have been meant.
func hint(near []string) string {
	if len(near) == 0 {
		return "see its --help"
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

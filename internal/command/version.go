package command

import (
	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// newVersion returns `PROGRAM version [-o text|json]`, which prints to the command's output.
func newVersion(program string) *cobra.Command {
	output := format("text")
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit, Go version and platform", Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return buildinfo.Get(program).Write(cmd.OutOrStdout(), string(output))
		},
	}
	cmd.Flags().VarP(&output, "output", "o", "text or json")
	return cmd
}

// format is checked when flags are parsed, so that a wrong one is a usage error.
// Some programs have a separate exit code for that.
type format string

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "string" }
func (f *format) Set(s string) error {
	*f = format(s)
	return buildinfo.CheckFormat(s)
}

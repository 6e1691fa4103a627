// Package versioncmd is the `version` subcommand that every program has. It
// lies apart from buildinfo so that what only wants a version links no cobra.
package versioncmd

import (
	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// New returns `PROGRAM version [-o text|json]`, which prints to the command's output.
func New(program string) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit, Go version and platform", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return buildinfo.Get(program).Write(cmd.OutOrStdout(), format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return cmd
}

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// newPlanCommand prints the plan for a snapshot in scenario text, as
// /debug/snapshot gives it. It needs no cluster.
func newPlanCommand(out io.Writer) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Print the plan for a snapshot in a file, - for standard input",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := read(cmd, file)
			if err != nil {
				return err
			}
			snapshot, policy, err := scenario.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := snapshot.Check(); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			_, err = fmt.Fprint(out, plan.Make(snapshot, policy))
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "scenario file")
	_ = cmd.MarkFlagRequired("file") // it fails for a flag that is not there
	return cmd
}

func read(cmd *cobra.Command, file string) (string, error) {
	if file == "-" {
		text, err := io.ReadAll(cmd.InOrStdin())
		return string(text), err
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

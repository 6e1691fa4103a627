package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// rulesCommand prints the queries without sending them.
func rulesCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "rules --config FILE",
		Short: "Print each rule and the query it sends",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := read(file)
			if err != nil {
				return err
			}
			if err := printRules(cmd.OutOrStdout(), f); err != nil {
				return err
			}
			return f.Err()
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML configuration file (required)")
	return cmd
}

func printRules(w io.Writer, f *config.File) error {
	for _, r := range f.Rules {
		where := "built in"
		if r.Line > 0 {
			where = fmt.Sprintf("%s:%d", f.Name, r.Line)
		}
		if len(r.Problems) > 0 {
			if _, err := fmt.Fprintf(w, "%s (%s): cannot be used, see below\n", r.Name, where); err != nil {
				return err
			}
			continue
		}
		backend := cmp.Or(r.Rule.Backend, cache.DefaultBackend)
		if _, err := fmt.Fprintf(w, "%s (%s), backend %s\n  %s\n", r.Name, where, backend, r.Rule.Query()); err != nil {
			return err
		}
	}
	if theirs := f.Config.PrometheusAdapter; theirs.Enabled() {
		_, err := fmt.Fprintf(w, "The rules of %s, in prometheus-adapter's format, are not listed: their queries depend on what Prometheus has. See /debug/rules of a running adapter.\n", theirs.ConfigFile)
		return err
	}
	return nil
}

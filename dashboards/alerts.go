package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

// alerting is the command that writes the alerts.
func alerting() *cobra.Command {
	var values, out string
	c := &cobra.Command{
		Use: "alerts", Short: "Write the alerting rules, with default or other thresholds", Args: cobra.NoArgs,
		Long: `Write the alerting rules as a file that Prometheus reads.

--values is a YAML file of overrides:

  programs: [exporter]            # those installed; empty means all
  jobs: {exporter: gpu-metrics}   # scrape jobs with other names
  runbooks: https://wiki.example/runbooks
  labels: {team: platform}        # of every alert
  alerts:
    GPUHeldIdle: {enabled: false}
    GPUThrottled: {threshold: 0.5, for: 1h, severity: info}`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v alerts.Values
			if values != "" {
				text, err := os.ReadFile(values)
				if err != nil {
					return fmt.Errorf("--values: %w", err)
				}
				if v, err = alerts.Parse(text); err != nil {
					return fmt.Errorf("--values %s: %w", values, err)
				}
			}
			text, err := alerts.Render(v)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			if err := os.WriteFile(out, text, 0o644); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&values, "values", "", "YAML file of overrides")
	c.Flags().StringVar(&out, "out", "", "file to write (default: standard output)")
	return c
}

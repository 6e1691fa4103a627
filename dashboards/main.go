// Command gpuscale-dashboards writes boards, recording rules and alerts, and shows
// boards without Grafana.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/rules"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "gpuscale-dashboards:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "gpuscale-dashboards", Short: "Write the Grafana boards, or show them without Grafana",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(generate(), show(), draw())
	return root
}

func generate() *cobra.Command {
	var root string
	c := &cobra.Command{
		Use: "generate", Short: "Write the boards, the recording rules and the alerts of a checkout", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return write(root) },
	}
	c.Flags().StringVar(&root, "root", ".", "the checkout")
	return c
}

const boardsDir = "deploy/chart/gpuscale/files/dashboards"

// write writes all generated files below a checkout, and removes those of deleted boards.
func write(root string) error {
	files, err := files()
	if err != nil {
		return err
	}
	folder := filepath.Join(root, boardsDir)
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o755)); err != nil {
		return fmt.Errorf("removing the boards before: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return fmt.Errorf("writing generated files: %w", err)
		}
	}
	return nil
}

// files are the generated files by their path in a checkout. The Helm chart holds
// the boards and the recording rules; the alerts have a second form outside it.
func files() (map[string][]byte, error) {
	all := map[string][]byte{
		"deploy/chart/gpuscale/files/recording.yaml": rules.YAML(),
		"dashboards/alerts/gpuscale-alerts.yaml":     alerts.Render(),
		"deploy/chart/gpuscale/files/alerts.yaml":    alerts.ChartData(),
	}
	for _, b := range boards.All() {
		var err error
		if all[boardsDir+"/"+b.UID+".json"], err = board.JSON(b); err != nil {
			return nil, err
		}
	}
	return all, nil
}

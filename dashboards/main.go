// Command gpuscale-dashboards writes the boards' JSON, and shows boards without
// Grafana.
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

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
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
		Use: "gpuscale-dashboards", Short: "Write the Grafana boards, or look at them without Grafana",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(generate(), alerting(), show(), draw())
	return root
}

func generate() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "generate", Short: "Write every board's JSON", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return write(dir) },
	}
	c.Flags().StringVar(&dir, "dir", "dashboards/json", "folder to write into")
	return c
}

// write every board as <uid>.json into a folder.
func write(dir string) error {
	for _, b := range boards.All() {
		text, err := board.JSON(b)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, b.UID+".json"), text, 0o644); err != nil {
			return fmt.Errorf("writing a board: %w", err)
		}
	}
	return nil
}

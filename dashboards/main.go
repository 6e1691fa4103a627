// Command gpuscale-dashboards writes boards, recording rules and alerts, and shows
// boards without Grafana.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/promflags"
	"github.com/gpuscale/gpuscale/internal/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "gpuscale-dashboards:", err)
		if command.IsUsage(err) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{Use: "gpuscale-dashboards", Short: "Write the Grafana boards, or show them without Grafana", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	root.AddCommand(generate(), show())
	command.Setup(root, "gpuscale-dashboards")
	return root
}

func generate() *cobra.Command {
	var root string
	c := &cobra.Command{
		Use: "generate", Short: "Write the boards, the recording rules and the alerts of a checkout", Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error { return write(root) },
	}
	c.Flags().StringVar(&root, "root", ".", "folder of the checkout")
	return c
}

const boardsDir = "deploy/chart/gpuscale/files/dashboards"

// write writes all generated files below a checkout and removes files of deleted boards.
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

// files returns the generated files by their path in a checkout. The Helm chart contains the boards and the
// recording rules. The alerts have a second form outside the chart.
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

// show is the command that serves the boards.
func show() *cobra.Command {
	var flags promflags.Flags
	var scrape time.Duration
	var listen string
	c := &cobra.Command{
		Use: "preview", Short: "Show the boards in a browser, without Grafana", Args: command.NoArgs,
		Long: "Serve the boards of a Prometheus, drawn by gpuscale: a preview, not Grafana. Pages refresh every 15 seconds.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.Client(cmd.Context())
			if err != nil {
				return err
			}
			server, err := serve.New(serve.Options{Address: listen, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
				Routes: func(mux *http.ServeMux) { preview.Routes(mux, client, boards.All(), scrape) }})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "boards (%s): http://%s/\n", preview.Label, server.Addr())
			return server.Run(cmd.Context())
		},
	}
	flags.Add(c.Flags())
	c.Flags().DurationVar(&scrape, "scrape-interval", 15*time.Second, "scrape interval of Prometheus")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address to serve on")
	return c
}

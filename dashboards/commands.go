package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// over is a command over a Prometheus.
func over(use, short, long string, run func(cmd *cobra.Command, src eval.Source, scrape time.Duration) error) *cobra.Command {
	var url string
	var scrape time.Duration
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := prom.New(prom.Config{URL: url})
			if err != nil {
				return fmt.Errorf("--prometheus-url: %w", err)
			}
			return run(cmd, client, scrape)
		},
	}
	c.Flags().StringVar(&url, "prometheus-url", "", "URL of Prometheus, or of a server with its HTTP API")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "prometheus" { // its old name
			name = "prometheus-url"
		}
		return pflag.NormalizedName(name)
	})
	c.Flags().DurationVar(&scrape, "scrape-interval", 15*time.Second, "how often Prometheus scrapes")
	_ = c.MarkFlagRequired("prometheus-url") // it fails for an unknown flag
	return c
}

// show is the command that serves the boards.
func show() *cobra.Command {
	var listen string
	c := over("preview", "Serve the boards over a Prometheus, without Grafana",
		"Serve the boards over a Prometheus, drawn by gpuscale itself: a preview, not Grafana. Pages refresh every 15 seconds.",
		func(cmd *cobra.Command, src eval.Source, scrape time.Duration) error {
			server, err := serve.New(serve.Options{Address: listen, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
				Routes: func(mux *http.ServeMux) { preview.Routes(mux, src, boards.All(), scrape) }})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "boards (%s): http://%s/\n", preview.Label, server.Addr())
			return server.Run(cmd.Context())
		})
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address to serve on")
	return c
}

// draw is the command that draws the boards into files.
func draw() *cobra.Command {
	var out string
	var since time.Duration
	c := over("render", "Draw the boards over a Prometheus into files", "Draw the boards over a Prometheus as they look now, as SVG for browsers.",
		func(cmd *cobra.Command, src eval.Source, scrape time.Duration) error {
			if since < time.Minute {
				return fmt.Errorf("--since %s: want a minute at least", since)
			}
			for _, b := range boards.All() {
				svg := preview.Board(cmd.Context(), src, b, preview.Window(time.Now(), since, scrape))
				path := filepath.Join(out, "board-"+strings.TrimPrefix(b.UID, "gpuscale-")+".svg")
				if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
					return fmt.Errorf("writing a picture: %w", err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		})
	c.Flags().StringVar(&out, "out", ".", "folder to write into")
	c.Flags().DurationVar(&since, "since", preview.DefaultLength, "how long a time to show")
	return c
}

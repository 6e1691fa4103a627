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

// where are the flags of both commands.
type where struct {
	url    string
	scrape time.Duration
}

func (o *where) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.url, "prometheus-url", "", "URL of Prometheus, or of a server with its HTTP API")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "prometheus" { // its old name
			name = "prometheus-url"
		}
		return pflag.NormalizedName(name)
	})
	c.Flags().DurationVar(&o.scrape, "scrape-interval", 15*time.Second, "how often Prometheus scrapes")
	_ = c.MarkFlagRequired("prometheus-url") // it fails for an unknown flag
}

func (o *where) open() (eval.Source, error) {
	client, err := prom.New(prom.Config{URL: o.url})
	if err != nil {
		return nil, fmt.Errorf("--prometheus-url: %w", err)
	}
	return client, nil
}

// show is the command that serves the boards.
func show() *cobra.Command {
	var o where
	var listen string
	c := &cobra.Command{
		Use: "preview", Short: "Serve the boards over a Prometheus, without Grafana", Args: cobra.NoArgs,
		Long: "Serve the boards over a Prometheus, drawn by gpuscale itself: a preview, not Grafana. Pages refresh every 15 seconds.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := o.open()
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			server, err := serve.New(serve.Options{Address: listen, Log: log,
				Routes: func(mux *http.ServeMux) { preview.Routes(mux, src, boards.All(), o.scrape) }})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "boards (%s): http://%s/\n", preview.Label, server.Addr())
			return server.Run(cmd.Context())
		},
	}
	o.flags(c)
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address to serve on")
	return c
}

// draw is the command that draws the boards into files.
func draw() *cobra.Command {
	var o where
	var out string
	var since time.Duration
	c := &cobra.Command{
		Use: "render", Short: "Draw the boards over a Prometheus into files", Args: cobra.NoArgs,
		Long: "Draw the boards over a Prometheus as they look now, as SVG.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := o.open()
			if err != nil {
				return err
			}
			if since < time.Minute {
				return fmt.Errorf("--since %s: want a minute at least", since)
			}
			for _, b := range boards.All() {
				svg := preview.Board(cmd.Context(), src, b, preview.Window(time.Now(), since, o.scrape))
				path := filepath.Join(out, "board-"+strings.TrimPrefix(b.UID, "gpuscale-")+".svg")
				if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
					return fmt.Errorf("writing a picture: %w", err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return nil
		},
	}
	o.flags(c)
	c.Flags().StringVar(&out, "out", ".", "folder to write into")
	c.Flags().DurationVar(&since, "since", preview.DefaultLength, "how long a time to show")
	return c
}

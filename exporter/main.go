// Command gpuscale-exporter reads the GPUs of one node through DCGM, says which
// pod holds each card and MIG instance, and serves it to Prometheus. It takes
// dcgm-exporter's flags and environment.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := newCommand(os.LookupEnv)
	cmd.SetArgs(doubleDashes(cmd.Flags(), os.Args[1:]))
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gpuscale-exporter:", err)
		os.Exit(1)
	}
}

// newCommand returns the program; env looks up an environment variable.
func newCommand(env func(string) (string, bool)) *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:           "gpuscale-exporter",
		Short:         "Serve the GPUs of this node to Prometheus",
		Long:          longHelp,
		Args:          cobra.NoArgs,
		Version:       buildinfo.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(cmd.Flags(), env, &c); err != nil {
				return err
			}
			return run(cmd.Context(), &c, cmd.ErrOrStderr())
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	addFlags(cmd.Flags(), &c)
	cmd.AddCommand(newCheck(env))
	return cmd
}

const longHelp = `Serve the GPUs of this node to Prometheus.

Takes dcgm-exporter's flags and environment variables (a flag wins), and serves
its series beside gpuscale's own. A dcgm-exporter flag that is not available yet
is an error, never ignored.

--collect-interval is how often values are sampled, 1000 ms unless given, where
dcgm-exporter has 30000: sampling happens off the scrape path and is cheap, and
a value older than 2.5 intervals is not served.`

func run(ctx context.Context, c *config, stderr io.Writer) error {
	log := newLogger(c, stderr)
	fields, err := loadCounters(c.countersFile)
	if err != nil {
		return err
	}
	source, err := openSource(c, log)
	if err != nil {
		return err
	}
	watcher, err := newWatcher(c, log)
	if err != nil {
		return err
	}
	n, err := node.New(node.Options{
		Name: c.node, Source: source, Interval: c.interval(), Pods: watcher, Compat: c.compatOptions(fields), Log: log,
	})
	if err != nil {
		return err
	}
	server, err := serve.New(serve.Options{
		Address: c.address, Metrics: n.Handler(), Ready: n.Ready, Live: n.Live,
		WebConfigFile: c.webConfigFile, Log: log, Routes: routes,
	})
	if err != nil {
		return err
	}
	log.Info("serving", "address", server.Addr().String(), "node", c.node, "interval", c.interval().String(), "version", buildinfo.Version())
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	err = server.Run(ctx)
	cancel()
	<-ended
	return err
}

// routes are dcgm-exporter's other paths.
func routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK\n") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "gpuscale-exporter: /metrics /readyz /livez\n")
	})
}

func newLogger(c *config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{}
	if c.debug {
		opts.Level = slog.LevelDebug
	}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

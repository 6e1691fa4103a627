// Command gpuscale-adapter serves GPU use and inference queues from Prometheus
// as custom and external metrics, for the HorizontalPodAutoscaler.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpuscale-adapter:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags beside those of the API server library.
type options struct {
	config   string
	logLevel slog.LevelVar
	check    bool
	version  bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	base := newBase(stderr)
	var o options
	flags := base.Flags()
	flags.StringVar(&o.config, "config", "", "YAML configuration file (required)")
	flags.BoolVar(&o.check, "check", false, "check the configuration file and exit")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	flags.StringVar(&base.RemoteKubeConfigFile, "kubeconfig", "", "kubeconfig file; empty means the pod's service account")
	flags.TextVar(&o.logLevel, "log-level", &o.logLevel, "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintln(stdout, "gpuscale-adapter", buildinfo.Version())
		return err
	}
	cfg, err := load(o.config)
	if err != nil {
		return err
	}
	if o.check {
		_, err := fmt.Fprintf(stdout, "%s is valid\n", o.config)
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: &o.logLevel}))
	kube.UseLogger(log)
	return serve(ctx, base, cfg, log)
}

func load(file string) (config.Config, error) {
	if file == "" {
		return config.Config{}, errors.New("--config is required")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return config.Config{}, fmt.Errorf("reading configuration: %w", err)
	}
	cfg, err := config.Parse(raw)
	if err != nil {
		return config.Config{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := cfg.Validate(); err != nil {
		return config.Config{}, fmt.Errorf("%s:\n%w", file, err)
	}
	return cfg, nil
}

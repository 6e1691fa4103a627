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

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/buildinfo/versioncmd"
	"github.com/gpuscale/gpuscale/internal/kube"
)

func main() {
	ignoreGoneCallers()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gpuscale-adapter:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := serveCommand(stderr)
	root.AddCommand(commands()...)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// commands are the subcommands.
func commands() []*cobra.Command {
	return []*cobra.Command{rulesCommand(), explainCommand(), simulateCommand(), versioncmd.New("gpuscale-adapter")}
}

// serveFlags are the flags beside those of the API server library.
type serveFlags struct {
	theirs   paFlags
	own      certificateFlags
	config   string
	logLevel slog.LevelVar
	check    bool
	version  bool
}

// serveCommand is the program without a subcommand.
func serveCommand(stderr io.Writer) *cobra.Command {
	base := newBase(stderr)
	var f serveFlags
	flags := base.Flags()
	flags.StringVar(&f.config, "config", "", "YAML configuration file (required)")
	flags.BoolVar(&f.check, "check", false, "check the configuration file and exit")
	flags.BoolVar(&f.version, "version", false, "print the version and exit")
	flags.StringVar(&base.RemoteKubeConfigFile, "kubeconfig", "", "kubeconfig file; empty means the pod's service account")
	flags.TextVar(&f.logLevel, "log-level", &f.logLevel, "debug, info, warn or error")
	f.theirs.add(flags)
	f.own.add(flags)
	cmd := &cobra.Command{
		Use:   "gpuscale-adapter",
		Short: "Serve metrics from Prometheus to the HorizontalPodAutoscaler",
		Long: `Serve metrics from Prometheus to the HorizontalPodAutoscaler.

What it serves and whom it asks stands in one file:
  gpuscale-adapter --config FILE           serve
  gpuscale-adapter --check --config FILE   say what is wrong with the file
Its own flags are --config, --check, --kubeconfig, --log-level, --version,
--certificate-for and --ca-bundles.
--prometheus-* and --metrics-* are prometheus-adapter's, put over the file; the
others are those of every Kubernetes API server.`,
		Args: cobra.NoArgs,
		// Errors are printed once, by main; a wrong flag prints no usage page.
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "gpuscale-adapter", buildinfo.Version())
				return err
			}
			overlay, err := f.theirs.overlay()
			if err != nil {
				return err
			}
			if f.check {
				return check(cmd.OutOrStdout(), f.config, overlay)
			}
			if f.theirs.disableHTTP2 {
				base.SecureServing.DisableHTTP2Serving = true
			}
			log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: &f.logLevel}))
			kube.UseLogger(log)
			return serve(cmd.Context(), base, &f.own, f.config, overlay, log)
		},
	}
	cmd.Flags().AddFlagSet(flags)
	return cmd
}

// check validates a file, its rules and those of prometheus-adapter's format
// included.
func check(stdout io.Writer, file string, overlay func(*config.Config)) error {
	f, err := load(file, overlay)
	if f == nil {
		return err
	}
	err = errors.Join(err, checkFile(f.Config.PrometheusAdapter))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is valid\n", file)
	return err
}

// load reads a configuration and fails on any problem in it.
func load(file string, overlays ...func(*config.Config)) (*config.File, error) {
	f, err := read(file, overlays...)
	if err != nil {
		return nil, err
	}
	return f, f.Err()
}

func read(file string, overlays ...func(*config.Config)) (*config.File, error) {
	if file == "" {
		return nil, errors.New("--config is required")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	return config.Read(file, raw, overlays...)
}

// Command gpuscale-autoscaler decides, with reasons: wait, repartition a MIG
// card, add or give back a node. One replica leads; each round it observes the
// cluster, plans, makes its memory safe and acts.
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

	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "gpuscale-autoscaler:", err)
		os.Exit(1)
	}
}

// flags of the program; everything else is in the configuration file.
type flags struct {
	config     string
	kubeconfig string
	listen     string
	logLevel   string
	check      bool
	dryRun     bool
}

func newCommand(out, errs io.Writer) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:           "gpuscale-autoscaler",
		Short:         "Repartition MIG cards, add and give back GPU nodes, with reasons",
		Version:       buildinfo.Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := Load(f.config)
			if err != nil {
				return err
			}
			if f.check {
				fmt.Fprintln(out, "the configuration is valid")
				return nil
			}
			log, err := newLog(errs, f.logLevel)
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, f, log)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file; empty means defaults")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account or the user's own")
	fs.StringVar(&f.listen, "listen", ":9402", "address of /metrics, /livez, /readyz, /debug/plan and /debug/snapshot")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.BoolVar(&f.check, "check", false, "check the configuration and end")
	fs.BoolVar(&f.dryRun, "dry-run", false, "decide and say what would be done, but write nothing at all")
	cmd.AddCommand(newPlanCommand(out))
	cmd.SetOut(out)
	cmd.SetErr(errs)
	return cmd
}

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

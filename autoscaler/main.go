// Command gpuscale-autoscaler repartitions MIG GPUs and adds and removes GPU nodes, with
// a reason for each decision. The leading replica observes the cluster, plans, persists
// its state and acts, in each reconcile.
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

	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
)

func main() {
	os.Exit(execute())
}

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	code := exitCode(err)
	if code != exitOK {
		fmt.Fprintln(os.Stderr, "gpuscale-autoscaler:", err)
	}
	return code
}

// flags of the program; everything else is in the configuration file.
type flags struct {
	config     string
	kubeconfig string
	listen     string
	logLevel   slog.LevelVar
	check      bool
	dryRun     bool
}

func newCommand(out, errs io.Writer) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:     "gpuscale-autoscaler",
		Short:   "Repartition MIG GPUs, add and remove GPU nodes, with reasons",
		Long:    longHelp,
		Version: buildinfo.Version(),
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(f.config)
			if err != nil {
				return err
			}
			if f.check {
				fmt.Fprintln(out, "the configuration is valid")
				return nil
			}
			return run(cmd.Context(), c, &f, slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: &f.logLevel})))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file; empty means defaults")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account or the user's own")
	fs.StringVar(&f.listen, "listen", ":9402", "address of /metrics, /livez, /readyz, /debug/plan and /debug/snapshot")
	fs.TextVar(&f.logLevel, "log-level", &f.logLevel, "debug, info, warn or error")
	fs.BoolVar(&f.check, "check", false, "check the configuration and exit")
	fs.BoolVar(&f.dryRun, "dry-run", false, "decide and log the actions, but write nothing to the cluster")
	cmd.AddCommand(newPlanCommand(out))
	cmd.AddCommand(newExplainCommand(out))
	cmd.AddCommand(newReplayCommand(out, errs))
	command.Setup(cmd, "gpuscale-autoscaler")
	cmd.SetOut(out)
	cmd.SetErr(errs)
	return cmd
}

const longHelp = `Repartition MIG GPUs, add and remove GPU nodes, with reasons.

The leading replica observes the cluster, plans, persists its state and acts, in
each reconcile.

Exit codes:
  0  success, or stopped by a signal
  1  failure: the configuration, the cluster or the lease
  2  the command line is wrong
`

// Exit codes. They are in --help, and scripts rely on them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitSnapshot = 3
	exitNotFound = 4
)

// badSnapshot marks a file that was read but is not a valid snapshot.
type badSnapshot struct{ error }

// exitCode is the program's exit code. Ending by a signal is no failure.
func exitCode(err error) int {
	var file badSnapshot
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return exitOK
	case command.IsUsage(err):
		return exitUsage
	case errors.As(err, &file):
		return exitSnapshot
	case errors.Is(err, explain.ErrNotFound), errors.Is(err, explain.ErrNotPending):
		return exitNotFound
	}
	return exitFailed
}

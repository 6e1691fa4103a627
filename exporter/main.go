// Command gpuscale-exporter reads the GPUs of one node through DCGM, attributes
// each GPU and MIG device to the pod it is allocated to, and serves the series
// to Prometheus. It takes dcgm-exporter's flags and environment.
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
	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/agent"
	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := newCommand(os.LookupEnv)
	cmd.SetArgs(twoDashes(cmd.Flags(), os.Args[1:]))
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gpuscale-exporter:", err)
		os.Exit(exitStatus(err))
	}
}

// newCommand returns the program; env looks up an environment variable.
func newCommand(env func(string) (string, bool)) *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:     "gpuscale-exporter",
		Short:   "Serve the GPUs of this node to Prometheus",
		Long:    longHelp,
		Args:    command.NoArgs,
		Version: buildinfo.Version(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(cmd.Flags(), env, &c); err != nil {
				return err
			}
			return run(cmd.Context(), &c, cmd.ErrOrStderr())
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	addFlags(cmd.Flags(), &c)
	command.Setup(cmd, "gpuscale-exporter")
	other := cmd.FlagErrorFunc()
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
			return fmt.Errorf("--%s=%q: %w", invalid.GetFlag().Name, invalid.GetValue(), wanted(err))
		}
		return other(cmd, err)
	})
	cmd.AddCommand(newCheck(env))
	return cmd
}

const longHelp = `Serve the GPUs of this node to Prometheus.

Takes dcgm-exporter's flags and environment variables (a flag wins), and serves
its series beside gpuscale's own. A dcgm-exporter flag that has no effect here
is accepted with a warning.

--collect-interval is how often values are sampled, 1000 ms unless given, where
dcgm-exporter has 30000: sampling happens off the scrape path and is cheap, and
a value older than 2.5 intervals is not served.`

func run(ctx context.Context, c *config, stderr io.Writer) error {
	log := newLogger(c, stderr)
	for _, w := range c.warnings {
		log.Warn("configuration", "warning", w)
	}
	from, err := newCounters(c)
	if err != nil {
		return err
	}
	file, err := from.load(ctx)
	if err != nil {
		return err
	}
	warnCounters(log, file)
	source, _, err := openSource(c, log)
	if err != nil {
		return err
	}
	n, jobs, err := assemble(c, source, file.Fields, pods.Connect, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	reload := &reloader{load: from.load, node: n, log: log, remote: from.api != nil, current: inText(file, nil)}
	go reload.run(ctx, hangup)
	for _, job := range jobs {
		go job(ctx)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	err = runServer(ctx, c, n, log)
	cancel()
	<-ended // the source is closed
	return err
}

// assemble makes the node, and the jobs that run beside it, according to the flags. connect returns
// the API server. With the flags of the agent, a missing API server is an error.
func assemble(c *config, source collect.Source, fields []counters.Field, connect func() (*pods.API, error), log *slog.Logger) (
	n *node.Node, jobs []func(context.Context), err error,
) {
	o := node.Options{
		Options: collect.Options{Node: c.node, Interval: c.interval(), Compat: c.compatOptions(fields), MaxSeries: c.maxSeries},
		Source:  source, RuntimeMetrics: c.exporterMetrics, Compress: c.gzip, Log: log,
	}
	processes := openProcesses(c, log)
	if processes != nil {
		o.Beside = processes
	}
	if o.Pods, err = newWatcher(c, processes, connect, log); err != nil {
		return nil, nil, err
	}
	if c.jobsDir != "" {
		batch := newJobMap(c.jobsDir, log)
		o.Jobs, jobs = batch.jobs, append(jobs, batch.run)
	}
	n = node.New(o)
	if c.dump.enabled {
		jobs = append(jobs, (&dumper{dumpOptions: c.dump, log: log, reading: n.Reading}).run)
	}
	if c.quiesceAnnotation || c.nodeCondition {
		api, err := connect()
		if err != nil {
			return nil, nil, fmt.Errorf("--node-condition and --quiesce-annotation: %w", err)
		}
		if c.nodeCondition {
			jobs = append(jobs, agent.NewReporter(api, c.node, n.Reading, n.Ready, n.CountNodeWrite, log).Run)
		}
		if c.quiesceAnnotation {
			jobs = append(jobs, agent.NewFollower(api, c.node, n, n.CountNodeWrite, log).Run)
		}
	}
	if c.quiesceSocket != "" {
		socket, err := agent.Listen(c.quiesceSocket, n, log)
		if err != nil {
			return nil, nil, fmt.Errorf("--quiesce-socket: %w", err)
		}
		jobs = append(jobs, socket.Run)
	}
	return n, jobs, nil
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

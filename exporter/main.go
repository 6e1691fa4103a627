// Command gpuscale-exporter reads the GPUs of one node through DCGM, attributes
// each GPU and MIG device to the pod it is allocated to, and serves the series
// to Prometheus. It takes dcgm-exporter's flags and environment.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/exporter/agent"
	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/buildinfo/versioncmd"
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
	cmd.AddCommand(newCheck(env), versioncmd.New("gpuscale-exporter"))
	return cmd
}

const longHelp = `Serve the GPUs of this node to Prometheus.

Takes dcgm-exporter's flags and environment variables (a flag wins), and serves
its series beside gpuscale's own. A dcgm-exporter flag that has no effect here is
accepted with a warning.

--collect-interval is how often values are sampled, 1000 ms unless given, where
dcgm-exporter has 30000: sampling happens off the scrape path and is cheap, and
a value older than 2.5 intervals is not served.`

func run(ctx context.Context, c *config, stderr io.Writer) error {
	log := newLogger(c, stderr)
	for _, w := range c.warnings {
		log.Warn("a flag has no effect", "flag", w)
	}
	load, err := countersLoader(c)
	if err != nil {
		return err
	}
	file, err := load(ctx)
	if err != nil {
		return err
	}
	warnCounters(log, file)
	source, err := openSource(c, log)
	if err != nil {
		return err
	}
	p := parts{connect: pods.Connect, counters: &reloader{load: load, log: log, served: file.Fields}}
	if err := p.assemble(c, source, log); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go p.counters.run(ctx, c, hangup)
	for _, job := range p.jobs {
		go job(ctx)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); p.node.Run(ctx) }()
	err = runServer(ctx, c, p.node, log)
	cancel()
	<-ended // the source is closed
	return err
}

// parts are the node, and the jobs that run beside it.
type parts struct {
	connect  func() (*pods.API, error)
	node     *node.Node
	counters *reloader
	jobs     []func(context.Context)
}

// assemble makes what the flags ask for. A node agent without an API server fails at its start.
func (p *parts) assemble(c *config, source collect.Source, log *slog.Logger) error {
	processes := openProcesses(c, log)
	watcher, err := newWatcher(c, processes, p.connect, log)
	if err != nil {
		return err
	}
	o := node.Options{
		Name: c.node, Source: source, Interval: c.interval(), Pods: watcher,
		Compat: c.compatOptions(p.counters.served), RuntimeMetrics: c.exporterMetrics, MaxSeries: c.maxSeries, Compress: c.gzip, Log: log,
	}
	if processes != nil {
		o.Beside = processes
	}
	if c.jobsDir != "" {
		jobs := newJobMap(c.jobsDir, log)
		o.Jobs = jobs.jobs
		p.jobs = append(p.jobs, jobs.run)
	}
	var observers []func(*collect.Reading)
	if c.dump.enabled {
		d := newDumper(c.dump, log)
		observers, p.jobs = append(observers, d.latest.Store), append(p.jobs, d.run)
	}
	o.Observe = func(r *collect.Reading) {
		for _, observe := range observers {
			observe(r)
		}
	}
	var api *pods.API
	if c.quiesceAnnotation || c.nodeCondition {
		if api, err = p.connect(); err != nil {
			return fmt.Errorf("--node-condition and --quiesce-annotation: %w", err)
		}
	}
	if p.node, err = node.New(o); err != nil {
		return err
	}
	p.counters.node = p.node
	if c.nodeCondition {
		r := agent.NewReporter(api, c.node, p.node.Ready, p.node.CountNodeWrite, log)
		observers, p.jobs = append(observers, r.Observe), append(p.jobs, r.Run)
	}
	if c.quiesceAnnotation {
		p.jobs = append(p.jobs, agent.NewFollower(api, c.node, p.node, p.node.CountNodeWrite, log).Run)
	}
	if c.quiesceSocket != "" {
		socket, err := agent.Listen(c.quiesceSocket, p.node, log)
		if err != nil {
			return fmt.Errorf("--quiesce-socket: %w", err)
		}
		p.jobs = append(p.jobs, socket.Run)
	}
	return nil
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

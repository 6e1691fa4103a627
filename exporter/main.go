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

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/nvml"
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
	p := parts{counters: &reloader{load: load, log: log, served: file.Fields}}
	if p.node, err = p.newNode(c, source, log); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := p.start(ctx, c)
	err = runServer(ctx, c, p.node, log)
	cancel()
	<-ended
	return err
}

// parts are what runs beside the server.
type parts struct {
	node     *node.Node
	counters *reloader
	jobs     *jobMap
	dump     *dumper
	side     *sideJobs
}

func (p *parts) newNode(c *config, source collect.Source, log *slog.Logger) (*node.Node, error) {
	processes := openProcesses(c, log)
	watcher, err := newWatcher(c, processes, log)
	if err != nil {
		return nil, err
	}
	if processes != nil {
		source = nvml.Together(source, processes)
	}
	o := node.Options{
		Name: c.node, Source: source, Interval: c.interval(), Pods: watcher,
		Compat: c.compatOptions(p.counters.served), RuntimeMetrics: c.exporterMetrics, Log: log,
	}
	if c.jobsDir != "" {
		p.jobs = newJobMap(c.jobsDir, log)
		o.ExtrasChanged = p.jobs.changed
	}
	if c.dump.enabled {
		p.dump = newDumper(c.dump, log)
		o.Observe = p.dump.observe
	}
	o.Extras = newExtraLabels(c, p.jobs, watcher).now
	if p.side, err = newSideJobs(c, pods.InCluster, log); err != nil {
		return nil, err
	}
	p.side.limit(&o)
	n, err := node.New(o)
	if err != nil {
		return nil, err
	}
	return n, p.side.attach(c.node, n)
}

// start runs everything until ctx ends; the channel is closed when the source
// is closed.
func (p *parts) start(ctx context.Context, c *config) <-chan struct{} {
	p.counters.node = p.node
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go p.counters.run(ctx, c, hangup)
	if p.jobs != nil {
		go p.jobs.run(ctx)
	}
	if p.dump != nil {
		go p.dump.run(ctx)
	}
	p.side.start(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); p.node.Run(ctx) }()
	return ended
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

package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/agent"
	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// defaultMaxSeries is ten times what eight GPUs of seven instances have with
// every field that dcgm-exporter's documentation lists.
const defaultMaxSeries = 50_000

// sideOptions are gpuscale's own flags: bounds of what is served, and what is
// done beside serving.
type sideOptions struct {
	maxSeries         int
	gzip              bool
	quiesceSocket     string
	quiesceAnnotation bool
	nodeCondition     bool
}

func addSideFlags(f *pflag.FlagSet, c *config) {
	o := &c.side
	f.IntVar(&o.maxSeries, "max-series", defaultMaxSeries, "GPU series served at most, the rest is counted and left out; 0 is any number")
	f.BoolVar(&o.gzip, "web-gzip", false, "compress for scrapers that take it: a tenth of the bytes for several times the CPU")
	f.StringVar(&o.quiesceSocket, "quiesce-socket", "", "unix socket on which processes of this node may request the release of GPUs (alone: "+agent.DefaultSocket+")")
	f.Lookup("quiesce-socket").NoOptDefVal = agent.DefaultSocket
	f.BoolVar(&o.quiesceAnnotation, "quiesce-annotation", false, "release GPUs on request of the own Node's annotation "+agent.AnnotationRequest)
	f.BoolVar(&o.nodeCondition, "node-condition", false, "report the GPUs' health on the own Node: condition "+agent.ConditionType+" and Events")
}

func (o *sideOptions) validate() []error {
	if o.maxSeries < 0 {
		return []error{fmt.Errorf("--max-series: %d, want 0 (any number) or more", o.maxSeries)}
	}
	return nil
}

// sideJobs run beside the node.
type sideJobs struct {
	options  *sideOptions
	log      *slog.Logger
	api      *pods.API
	reporter *agent.Reporter
	socket   *agent.Socket
	follower *agent.Follower
}

// newSideJobs looks for the API server where it is needed. A node agent without
// it fails at its start.
func newSideJobs(c *config, inCluster func() (*pods.API, error), log *slog.Logger) (*sideJobs, error) {
	s := &sideJobs{options: &c.side, log: log}
	if !c.side.quiesceAnnotation && !c.side.nodeCondition {
		return s, nil
	}
	api, err := inCluster()
	if err != nil {
		return nil, fmt.Errorf("--node-condition and --quiesce-annotation: %w", err)
	}
	s.api = api
	return s, nil
}

// limit bounds what the node serves.
func (s *sideJobs) limit(o *node.Options) {
	o.MaxSeries, o.Compress = s.options.maxSeries, s.options.gzip
	if !s.options.nodeCondition {
		return
	}
	before := o.Observe
	o.Observe = func(r *collect.Reading) {
		if before != nil {
			before(r)
		}
		s.reporter.Observe(r)
	}
}

// attach creates the jobs that need the node, before the node runs.
func (s *sideJobs) attach(name string, n *node.Node) error {
	if s.options.nodeCondition {
		s.reporter = agent.NewReporter(s.api, name, n.Ready, n.CountNodeWrite, s.log)
	}
	if s.options.quiesceAnnotation {
		s.follower = agent.NewFollower(s.api, name, n, n.CountNodeWrite, s.log)
	}
	if s.options.quiesceSocket == "" {
		return nil
	}
	socket, err := agent.Listen(s.options.quiesceSocket, n, s.log)
	if err != nil {
		return fmt.Errorf("--quiesce-socket: %w", err)
	}
	s.socket = socket
	return nil
}

// start runs them until ctx ends.
func (s *sideJobs) start(ctx context.Context) {
	if s.reporter != nil {
		go s.reporter.Run(ctx)
	}
	if s.follower != nil {
		go s.follower.Run(ctx)
	}
	if s.socket != nil {
		go s.socket.Run(ctx)
	}
}

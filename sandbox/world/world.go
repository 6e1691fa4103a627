package world

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/internal/serve"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/machines"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// tick is the interval at which the fakes act.
const tick = 200 * time.Millisecond

// Options of a world.
type Options struct {
	Story    story.Story
	Binaries Binaries
	Trace    trace.Trace
	Speed    float64 // seconds of traffic time a second
	Log      *slog.Logger
	// RealNode adds a real node with containers beside KWOK's, if the machine supports it.
	RealNode bool
}

// World is a running world of a story.
type World struct {
	Cluster  *cluster.Cluster
	Programs *Programs
	Caches   *node.Cached
	Gateway  *model.Gateway

	opts     Options
	client   client.Client
	groups   *nodegroups.Maker
	pages    string // address of the simulated servers' metrics
	servers  *servers
	machines *machines.Fleet
	targets  []cluster.TargetGroup // Prometheus' current targets

	stop  sync.Once
	stops []func() // stop what was started, in the order of the starts
}

// Start starts a world and returns when its workloads run; Play starts the traffic. ctx bounds only the
// start; end the world with Stop.
func Start(ctx context.Context, o Options) (_ *World, err error) {
	w := &World{opts: o}
	w.Cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: o.Binaries.ControlPlane, Log: o.Log, Prometheus: prometheusConfig("", ""),
		// With leases KWOK decides only once, when it first sees a node, whether to manage it. Our nodes get their
		// annotation after their machine has booted.
		ExtraArgs: map[string][]string{cluster.KWOK: {"--node-lease-duration-seconds=0"}},
		Egress:    o.RealNode,
	})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	w.stops = []func(){w.Cluster.Stop, cancel}
	defer func() {
		if err != nil {
			w.Stop()
		}
	}()
	for _, step := range []struct {
		what string
		do   func(ctx, life context.Context) error
	}{
		{"connecting", w.connect},
		{"creating the fleet", w.populate},
		{"starting the fakes", w.startFakes},
		{"waiting for the nodes", w.nodesUp},
		{"creating the workloads", w.populateWorkloads},
		{"starting gpuscale", w.startPrograms},
		{"joining the real node", w.joinRealNode},
	} {
		if err := step.do(ctx, life); err != nil {
			if died := w.Cluster.Err(); died != nil {
				err = died // the cause of the failure
			}
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return w, nil
}

func (w *World) connect(_, life context.Context) error {
	var err error
	if w.client, err = client.New(w.Cluster.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	w.Programs = &Programs{cluster: w.Cluster, client: w.client, binaries: w.opts.Binaries, ports: map[string]int{}}
	w.groups = nodegroups.New(w.client, w.client)
	w.groups.ExternalBoot = true
	w.Caches, err = node.NewCached(life, w.Cluster.Client())
	return err
}

// populate creates the objects of the manifests and the story.
func (w *World) populate(ctx, _ context.Context) error {
	if err := createNamespaces(ctx, w.client, w.opts.Story); err != nil {
		return err
	}
	if err := neighbours.Apply(ctx, w.client, filepath.Join(w.opts.Binaries.Root, "deploy/chart/gpuscale/files/crds/*.yaml")); err != nil {
		return err
	}
	return createFleet(ctx, w.client, w.groups, w.opts.Story)
}

// populateWorkloads runs before the autoscaler starts, so that the story begins with a settled cluster.
func (w *World) populateWorkloads(ctx, _ context.Context) error {
	if err := createWorkloads(ctx, w.client, w.opts.Story); err != nil {
		return err
	}
	return w.until(ctx, w.podsMissing)
}

func (w *World) startFakes(_, life context.Context) error {
	groups, stopGroups, err := w.groups.Serve()
	if err != nil {
		return err
	}
	w.Programs.groups = groups
	w.stops = append(w.stops, stopGroups)
	dir := filepath.Join(w.Cluster.Dir(), "nodes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the machines' folder: %w", err)
	}
	w.Gateway = model.NewGateway(model.Chat13B(), w.opts.Speed, time.Now)
	w.servers = newServers(w.opts.Story, w.Gateway, w.opts.Log)
	w.machines = machines.New(machines.Options{
		Story: w.opts.Story, Client: w.client, Dir: dir, Log: w.opts.Log,
		Loads: w.servers.loads, Start: w.Programs.startExporter,
	})
	w.stops = append(w.stops, w.machines.Stop)
	server, err := serve.New(serve.Options{Address: "127.0.0.1:0", Log: w.opts.Log, Routes: w.servers.routes})
	if err != nil {
		return fmt.Errorf("serving the simulated servers' metrics: %w", err)
	}
	w.pages = server.Addr().String()
	life, end := context.WithCancel(life)
	var loop sync.WaitGroup
	loop.Go(func() { _ = server.Run(life) }) // runs until life ends
	loop.Go(func() { w.run(life) })
	w.stops = append(w.stops, func() { end(); loop.Wait() })
	return nil
}

func (w *World) startPrograms(ctx, _ context.Context) error {
	if err := w.Programs.start(ctx); err != nil {
		return err
	}
	return createObjects(ctx, w.client, w.opts.Story)
}

// Play starts the traffic now.
func (w *World) Play() error { return w.Gateway.Play(w.opts.Trace) }

// Stop ends everything and leaves nothing behind.
func (w *World) Stop() {
	w.stop.Do(func() {
		for _, stop := range slices.Backward(w.stops) {
			stop()
		}
	})
}

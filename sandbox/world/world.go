package world

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/machines"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// tick of the fakes.
const tick = 200 * time.Millisecond

// Options of a world.
type Options struct {
	Story    story.Story
	Binaries Binaries
	Trace    trace.Trace
	Speed    float64 // seconds of traffic time a second
	Log      *slog.Logger
	// RealNode joins a node of containers to KWOK's, where the machine can have one.
	RealNode bool
}

// World is a story's world, running.
type World struct {
	opts     Options
	binaries Binaries
	log      *slog.Logger
	cluster  *cluster.Cluster

	client     client.Client
	Kubernetes kubernetes.Interface
	Caches     *Caches
	Gateway    *model.Gateway

	pages      *pages
	servers    *servers
	machines   *machines.Fleet
	targets    targets
	ports      reserved               // of exporters, by node
	adapter    string                 // host:port
	autoscaler atomic.Pointer[string] // host:port; nil before it has started

	groups     string // address of the pools' provider
	stopGroups func()

	real interface{ Stop() error } // node; nil: none

	cancel context.CancelFunc
	loop   sync.WaitGroup
	stop   sync.Once
}

// Start brings a world up and returns when its workloads run; traffic begins
// with Play. ctx bounds the start only; end the world with Stop.
func Start(ctx context.Context, o Options) (_ *World, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	w := &World{opts: o, binaries: o.Binaries, log: o.Log}
	w.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: o.Binaries.ControlPlane, Log: o.Log, Prometheus: prometheusConfig(""),
		// With leases KWOK takes a node only when it first sees it. Ours get its
		// annotation when their machine has booted.
		ExtraArgs: map[string][]string{cluster.KWOK: {"--node-lease-duration-seconds=0"}},
		Egress:    o.RealNode,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Stop()
		}
	}()
	life, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
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
			if died := w.cluster.Err(); died != nil {
				err = died // what made it fail
			}
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return w, nil
}

func (w *World) connect(_, life context.Context) error {
	config := w.cluster.RESTConfig()
	var err error
	if w.client, err = client.New(config, client.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	if w.Kubernetes, err = kubernetes.NewForConfig(rest.CopyConfig(config)); err != nil {
		return err
	}
	w.Caches, err = newCaches(life, w.Kubernetes)
	return err
}

// populate creates what the manifests and the story say.
func (w *World) populate(ctx, _ context.Context) error {
	if err := createNamespaces(ctx, w.client, w.opts.Story); err != nil {
		return err
	}
	if err := applyManifests(ctx, w.client, w.binaries.Root, aggregated{}, "deploy/chart/gpuscale/files/crds"); err != nil {
		return err
	}
	return createFleet(ctx, w.client, w.opts.Story)
}

// populateWorkloads before the autoscaler is there: the story begins with a
// cluster that has settled.
func (w *World) populateWorkloads(ctx, _ context.Context) error {
	if err := createWorkloads(ctx, w.client, w.opts.Story); err != nil {
		return err
	}
	return w.until(ctx, w.podsMissing)
}

func (w *World) startFakes(_, life context.Context) error {
	var err error
	if w.pages, err = newPages(w.log); err != nil {
		return err
	}
	w.Gateway = model.NewGateway(model.Chat13B(), w.opts.Speed, time.Now)
	w.servers = newServers(w.opts.Story, w.Gateway, w.pages, w.log)
	dir := filepath.Join(w.cluster.Dir(), "nodes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the machines' folder: %w", err)
	}
	maker := nodegroups.New(w.client, w.client, partition.NewManager(w.client, w.client, partition.DefaultConfigMap))
	maker.ExternalBoot = true
	if w.groups, w.stopGroups, err = maker.Serve(); err != nil {
		return err
	}
	w.targets = targets{dir: w.cluster.PrometheusDir()}
	w.machines = machines.New(machines.Options{
		Story: w.opts.Story, Client: w.Kubernetes, View: w.Caches, Dir: dir, Clock: time.Now, Log: w.log,
		Loads: w.servers.loads, Start: w.startExporter,
	})
	handlers, err := replayed(life, w.opts.Story.Replayed, w.log)
	if err != nil {
		return err
	}
	for name, h := range handlers {
		w.pages.set(replayedPath(name), h)
	}
	w.loop.Go(func() { w.run(life) })
	return nil
}

func (w *World) startPrograms(ctx, _ context.Context) error {
	port, err := w.ports.port(adapterAccount)
	if err != nil {
		return err
	}
	cert, key, ca, err := w.cluster.ServingCert(adapterService, "localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	certFile, err := w.configFile("adapter.crt", string(cert))
	if err != nil {
		return err
	}
	keyFile, err := w.configFile("adapter.key", string(key))
	if err != nil {
		return err
	}
	if err := applyManifests(ctx, w.client, w.binaries.Root, aggregated{port: port, caBundle: ca}, "deploy/manifests"); err != nil {
		return err
	}
	w.adapter = "127.0.0.1:" + strconv.Itoa(port)
	if err := w.startAdapter(ctx, port, certFile, keyFile); err != nil {
		return err
	}
	if err := copyRules(w.binaries.Root, w.cluster.PrometheusDir()); err != nil {
		return err
	}
	if err := w.scrapeAdapter(ctx, ca); err != nil { // reads the rules too
		return err
	}
	if err := w.startAutoscaler(ctx); err != nil {
		return err
	}
	if err := w.waitReady(ctx, "the autoscaler", w.AutoscalerURL()+"/readyz"); err != nil {
		return err
	}
	return createObjects(ctx, w.client, w.opts.Story)
}

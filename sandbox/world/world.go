package world

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/serve"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/machines"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
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

	client  client.Client
	Caches  *node.Cached
	Gateway *model.Gateway

	pages      *pages
	servers    *servers
	machines   *machines.Fleet
	targets    []cluster.TargetGroup  // that Prometheus has
	ports      map[string]int         // of exporters, by node
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
	w := &World{opts: o, binaries: o.Binaries, log: o.Log, ports: map[string]int{}}
	w.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: o.Binaries.ControlPlane, Log: o.Log, Prometheus: prometheusConfig("", ""),
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
	var err error
	if w.client, err = client.New(w.cluster.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	w.Caches, err = node.NewCached(life, w.cluster.Client())
	return err
}

// populate creates what the manifests and the story say.
func (w *World) populate(ctx, _ context.Context) error {
	if err := createNamespaces(ctx, w.client, w.opts.Story); err != nil {
		return err
	}
	if err := neighbours.Apply(ctx, w.client, filepath.Join(w.binaries.Root, "deploy/chart/gpuscale/files/crds/*.yaml")); err != nil {
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
	w.pages = &pages{}
	server, err := serve.New(serve.Options{Address: "127.0.0.1:0", Log: w.log, Routes: func(mux *http.ServeMux) { mux.Handle("/", w.pages) }})
	if err != nil {
		return fmt.Errorf("serving the simulated servers' metrics: %w", err)
	}
	w.pages.address = server.Addr().String()
	w.loop.Go(func() { _ = server.Run(life) }) // ends with life
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
	w.machines = machines.New(machines.Options{
		Story: w.opts.Story, Client: w.cluster.Client(), Dir: dir, Clock: time.Now, Log: w.log,
		Loads: w.servers.loads, Start: w.startExporter,
	})
	w.loop.Go(func() { w.run(life) })
	return nil
}

func (w *World) startPrograms(ctx, _ context.Context) error {
	port, err := proc.ReservePort()
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
	here := func(o *unstructured.Unstructured) bool { return adapt(o, aggregated{port: port, caBundle: ca}) }
	if err := neighbours.Apply(ctx, w.client, filepath.Join(w.binaries.Root, "deploy/manifests/*.yaml"), here); err != nil {
		return err
	}
	w.adapter = "127.0.0.1:" + strconv.Itoa(port)
	if err := w.startAdapter(ctx, port, certFile, keyFile); err != nil {
		return err
	}
	if err := w.scrapeAdapter(ctx, ca); err != nil {
		return err
	}
	if err := w.startAutoscaler(ctx); err != nil {
		return err
	}
	if err := w.cluster.WaitHTTP(ctx, autoscalerAccount, w.AutoscalerURL()+"/readyz"); err != nil {
		return err
	}
	return createObjects(ctx, w.client, w.opts.Story)
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/dynamicmapper"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/adapter/provider"
)

func newBase(stderr io.Writer) *adapterbase.AdapterBase {
	flags := pflag.NewFlagSet("gpuscale-adapter", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	return &adapterbase.AdapterBase{
		Name: "gpuscale-adapter", FlagSet: flags,
		DiscoveryInterval: time.Minute,

		CustomMetricsAdapterServerOptions: serverOptions(),
	}
}

// serve runs until ctx ends.
func serve(ctx context.Context, base *adapterbase.AdapterBase, configFile string, overlay func(*config.Config), log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The API server library serves this registry at /metrics.
	reg := &scope{Registerer: legacyregistry.Registerer()}
	defer reg.end()
	if err := registerBuildInfo(reg); err != nil {
		return fmt.Errorf("registering build info: %w", err)
	}
	conf, err := live.Open(configFile, []func(*config.Config){overlay}, reg, log)
	if err != nil {
		return err
	}
	cfg := conf.Force().File.Config
	tables, err := cache.New(conf.Setup(), reg, log)
	if err != nil {
		return err
	}
	var file *compat.Provider // nil without such a file
	known := func(metric string) bool { return tables.Has(metric) || file.Has(metric) }
	others, err := newForwarder(cfg.Forward, known, reg, log)
	if err != nil {
		return err
	}
	pods, err := newProvider(ctx, base, tables, others, &file, cfg, conf.Backend(cfg.PrometheusAdapter.Backend), reg, log)
	if err != nil {
		return err
	}
	serving, err := serverConfig(base)
	if err != nil {
		return err
	}
	passOn(serving, others)
	server, err := base.Server()
	if err != nil {
		return fmt.Errorf("setting up the API server: %w", err)
	}
	err = server.GenericAPIServer.AddReadyzChecks(
		healthz.NamedCheck("pods", func(*http.Request) error { return pods.Ready() }),
		healthz.NamedCheck("prometheus", func(*http.Request) error { return tables.Ready() }),
		healthz.NamedCheck("prometheus-adapter-rules", func(*http.Request) error { return file.Ready() }),
	)
	if err != nil {
		return fmt.Errorf("adding readiness checks: %w", err)
	}
	server.GenericAPIServer.Handler.NonGoRestfulMux.Handle("/debug/rules", debugRules(func() rulesPage {
		return newRulesPage(conf.Force(), file.Rules(), tables.Status(), time.Now())
	}))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { tables.Run(ctx) })
	running.Go(func() { conf.Run(ctx, tables.Apply) })
	running.Go(func() { others.Run(ctx) })
	running.Go(func() { file.Run(ctx) })
	pods.Start(ctx.Done())
	log.Info("serving", slog.Int("rules", len(tables.Rules())), slog.Int("backends", len(cfg.Servers())))
	return base.Run(ctx)
}

// newProvider wires the metrics APIs into base and returns the informers, which
// the caller starts.
func newProvider(ctx context.Context, base *adapterbase.AdapterBase, tables *cache.Cache, others *forward.Forwarder, file **compat.Provider, cfg config.Config, lister compat.Lister, reg prometheus.Registerer, log *slog.Logger) (*provider.Informers, error) {
	rest, err := base.ClientConfig()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("building the metadata client: %w", err)
	}
	pods, err := provider.NewInformers(client)
	if err != nil {
		return nil, fmt.Errorf("preparing the pod informers: %w", err)
	}
	dynamic, err := base.DynamicClient()
	if err != nil {
		return nil, err
	}
	mapper, err := restMapper(ctx, base)
	if err != nil {
		return nil, err
	}
	p, err := provider.New(tables, pods, provider.NewScales(dynamic), mapper, reg)
	if err != nil {
		return nil, err
	}
	above, err := newHierarchy(pods, client, rest)
	if err != nil {
		return nil, err
	}
	above.Start(ctx.Done())
	p.Use(provider.Extra{Above: above, External: others.Names})
	if *file, err = newFileRules(cfg, tables, lister, pods, client, mapper, log); err != nil {
		return nil, err
	}
	var served cma.MetricsProvider = p
	if *file != nil {
		served = compat.NewRoute(*file, p)
	}
	base.WithCustomMetrics(served)
	base.WithExternalMetrics(served)
	return pods, nil
}

// restMapper returns base's mapper, refreshed until ctx ends so that it finds
// kinds installed later. The library does not start that refresh itself.
func restMapper(ctx context.Context, base *adapterbase.AdapterBase) (apimeta.RESTMapper, error) {
	mapper, err := base.RESTMapper()
	if err != nil {
		return nil, err
	}
	if m, ok := mapper.(*dynamicmapper.RegeneratingDiscoveryRESTMapper); ok {
		m.RunUntil(ctx.Done())
	}
	return mapper, nil
}

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
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/dynamicmapper"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/prom"
)

func newBase(stderr io.Writer) *adapterbase.AdapterBase {
	flags := pflag.NewFlagSet("gpuscale-adapter", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	return &adapterbase.AdapterBase{
		Name: "gpuscale-adapter", FlagSet: flags,
		DiscoveryInterval: time.Minute,
	}
}

// serve runs until ctx ends.
func serve(ctx context.Context, base *adapterbase.AdapterBase, cfg config.Config, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The API server library serves this one registry at /metrics.
	reg := legacyregistry.Registerer()
	if err := registerBuildInfo(reg); err != nil {
		return fmt.Errorf("registering build info: %w", err)
	}
	tables, err := newCache(cfg, reg, log)
	if err != nil {
		return err
	}
	pods, err := newProvider(ctx, base, tables, reg)
	if err != nil {
		return err
	}
	server, err := base.Server()
	if err != nil {
		return fmt.Errorf("setting up the API server: %w", err)
	}
	err = server.GenericAPIServer.AddReadyzChecks(
		healthz.NamedCheck("pods", func(*http.Request) error { return pods.Ready() }),
		healthz.NamedCheck("prometheus", func(*http.Request) error { return tables.Ready() }),
	)
	if err != nil {
		return fmt.Errorf("adding readiness checks: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { tables.Run(ctx) })
	pods.Start(ctx.Done())
	log.Info("serving", slog.Int("rules", len(tables.Rules())), slog.String("prometheus", cfg.Prometheus.URL))
	return base.Run(ctx)
}

func newCache(cfg config.Config, reg prometheus.Registerer, log *slog.Logger) (*cache.Cache, error) {
	rules, err := cfg.Signals()
	if err != nil {
		return nil, err
	}
	client, err := prom.New(cfg.Prometheus.Client())
	if err != nil {
		return nil, err
	}
	return cache.New(client, rules, cfg.Cache(), reg, log)
}

// newProvider wires the metrics APIs into base and returns what must be
// started.
func newProvider(ctx context.Context, base *adapterbase.AdapterBase, tables *cache.Cache, reg prometheus.Registerer) (*provider.Informers, error) {
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
	mapper, err := base.RESTMapper()
	if err != nil {
		return nil, err
	}
	// The library never starts its own refresh, so a CRD installed later
	// would stay unknown until a restart.
	if m, ok := mapper.(*dynamicmapper.RegeneratingDiscoveryRESTMapper); ok {
		m.RunUntil(ctx.Done())
	}
	p, err := provider.New(tables, pods, provider.NewScales(dynamic), mapper, reg)
	if err != nil {
		return nil, err
	}
	base.WithCustomMetrics(p)
	base.WithExternalMetrics(p)
	return pods, nil
}

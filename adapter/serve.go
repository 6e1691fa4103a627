package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd/options"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/dynamicmapper"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/adapter/provider"
)

// The HPA controller sends a request every 15 s. With the library's 10 s no cached
// decision would ever be used. A denial is kept for a short time, so that a right
// just granted takes effect soon.
const (
	allowFor = time.Minute
	denyFor  = 10 * time.Second
	// leaving is how long a program that ends still serves while not ready: the
	// aggregator and kube-proxy notice only a moment later.
	leaving = 5 * time.Second
)

func newBase(stderr io.Writer) *adapterbase.AdapterBase {
	flags := pflag.NewFlagSet("gpuscale-adapter", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	o := options.NewCustomMetricsAdapterServerOptions()
	o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL = allowFor, denyFor
	return &adapterbase.AdapterBase{
		Name: "gpuscale-adapter", FlagSet: flags,
		DiscoveryInterval: time.Minute,

		CustomMetricsAdapterServerOptions: o,
	}
}

// outsidePods lets --kubeconfig suffice where there is no pod's service account, for which the library has two
// more flags.
func outsidePods(base *adapterbase.AdapterBase) error {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return nil
	}
	if base.RemoteKubeConfigFile == "" {
		return errors.New("no cluster is configured: give --kubeconfig (not running in a pod)")
	}
	base.Authentication.RemoteKubeConfigFile = cmp.Or(base.Authentication.RemoteKubeConfigFile, base.RemoteKubeConfigFile)
	base.Authorization.RemoteKubeConfigFile = cmp.Or(base.Authorization.RemoteKubeConfigFile, base.RemoteKubeConfigFile)
	return nil
}

// serve runs until ctx ends or the configuration has changed. After a change the program
// ends, and kubelet starts it again.
func serve(ctx context.Context, base *adapterbase.AdapterBase, own *certificateFlags, configFile string, overlay func(*config.Config), log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reg := prometheus.NewRegistry()
	registerBuildInfo(reg)
	conf, err := live.Open(configFile, []func(*config.Config){overlay}, reg, log)
	if err != nil {
		return err
	}
	if err := outsidePods(base); err != nil {
		return err
	}
	cfg := conf.File.Config
	tables := cache.New(conf.Setup(), reg, log)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	pods, file, err := newProvider(ctx, base, tables, conf, reg, log, &running)
	if err != nil {
		return err
	}
	issuer, err := own.issuer(base, log)
	if err != nil {
		return err
	}
	serving, err := base.Config()
	if err != nil {
		return fmt.Errorf("configuring the API server: %w", err)
	}
	if issuer != nil {
		serving.GenericConfig.SecureServing.Cert = issuer
	}
	serving.GenericConfig.ShutdownDelayDuration = leaving
	adjust(serving)
	server, err := base.Server()
	if err != nil {
		return fmt.Errorf("setting up the API server: %w", err)
	}
	// Prometheus is not checked: while it is away each answer says so. An API
	// service that is not available would keep every namespace of the cluster from
	// being deleted.
	err = server.GenericAPIServer.AddReadyzChecks(
		healthz.NamedCheck("pods", func(*http.Request) error { return pods.Ready() }),
		healthz.NamedCheck("certificate", func(*http.Request) error { return issuer.Ready() }),
	)
	if err != nil {
		return fmt.Errorf("adding readiness checks: %w", err)
	}
	pages := server.GenericAPIServer.Handler.NonGoRestfulMux
	pages.Unregister("/metrics") // the library's, which has its own series only
	pages.Handle("/metrics", promhttp.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, reg}, promhttp.HandlerOpts{}))
	pages.Handle("/debug/rules", debugRules(func() rulesPage {
		page := rulesPage{File: conf.File.Name, Hash: conf.Hash, Since: conf.Since, Failure: conf.Failure()}
		return newRulesPage(page, conf.File.Rules, file.Rules(), tables.Status())
	}))
	running.Go(func() { tables.Run(ctx) })
	running.Go(func() {
		if conf.Changed(ctx) {
			log.Info("the configuration has changed: starting again", slog.String("file", configFile))
			cancel()
		}
	})
	running.Go(func() { issuer.Run(ctx) })
	pods.Start(ctx.Done())
	log.Info("serving", slog.Int("rules", len(tables.Rules())), slog.Int("backends", len(cfg.All())))
	return base.Run(ctx)
}

// newProvider wires the metrics APIs into base and starts what they need, except for the
// informers, which the caller starts. Without a file in prometheus-adapter's format, file is
// nil.
func newProvider(ctx context.Context, base *adapterbase.AdapterBase, tables *cache.Cache, conf *live.Configuration, reg prometheus.Registerer, log *slog.Logger, running *sync.WaitGroup) (pods *provider.Informers, file *compat.Provider, err error) {
	rest, err := base.ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	client, err1 := metadata.NewForConfig(rest)
	kube, err2 := kubernetes.NewForConfig(rest)
	dynamic, err3 := base.DynamicClient()
	mapper, err4 := restMapper(ctx, base)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, fmt.Errorf("building the clients of the API server: %w", err)
	}
	pods, err = provider.NewInformers(client, kube)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the pod informers: %w", err)
	}
	p := provider.New(tables, pods, provider.NewScales(dynamic), mapper, reg)
	var served cma.MetricsProvider = p
	if conf.Compat != nil {
		o := conf.File.Config.PrometheusAdapter
		file = compat.New(o, conf.Compat, compat.Sources{
			Watcher: tables, Lister: conf.Backend(o.Backend), Pods: pods, Objects: client, Mapper: mapper, Other: p,
		}, log)
		running.Go(func() { file.Run(ctx) })
		served = file
	}
	if t := conf.File.Config.Forward.External; t != nil {
		known := func(metric string) (bool, error) {
			if tables.Has(metric) {
				return true, nil
			}
			return file.Has(metric)
		}
		others, err := forward.New(*t, served, known, reg, log)
		if err != nil {
			return nil, nil, err
		}
		served = others
	}
	base.WithCustomMetrics(served)
	base.WithExternalMetrics(served)
	return pods, file, nil
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

// openAPI is the path of the OpenAPI v2 document. It is served empty: the library's takes 3
// MiB, and clients read version 3, which has the same content. Without the document the
// aggregator logs an error each time it looks for it.
const (
	openAPI      = "/openapi/v2"
	emptyOpenAPI = `{"swagger":"2.0","info":{"title":"gpuscale-adapter","version":""},"paths":{}}`
)

// adjust serves that document, and marks requests that another adapter has forwarded.
func adjust(config *apiserver.Config) {
	config.GenericConfig.OpenAPIConfig = nil
	config.GenericConfig.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		api = forward.Mark(api)
		return genericapiserver.DefaultBuildHandlerChain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != openAPI {
				api.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, emptyOpenAPI) // the caller may have gone
		}), c)
	}
}

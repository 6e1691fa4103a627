package main

import (
	"context"
	"log/slog"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/metadata"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// fileRules serves the rules of a prometheus-adapter configuration file beside
// the others. Its zero value serves none.
type fileRules struct{ provider *compat.Provider }

// open reads the file, if there is one.
func (r *fileRules) open(c config.Config, tables *cache.Cache, lister compat.Lister, pods compat.Pods, meta metadata.Interface, mapper apimeta.RESTMapper, log *slog.Logger) error {
	if !c.PrometheusAdapter.Enabled() {
		return nil
	}
	var err error
	r.provider, err = compat.New(c.PrometheusAdapter, compat.Sources{
		Watcher: tables, Lister: lister, Pods: pods, Objects: compat.Metadata{Client: meta}, Mapper: mapper,
	}, log)
	return err
}

// beside puts the file's metrics beside another provider's.
func (r *fileRules) beside(other cma.MetricsProvider) cma.MetricsProvider {
	if r.provider == nil {
		return other
	}
	return compat.NewRoute(r.provider, other)
}

// has reports whether an external metric is the file's.
func (r *fileRules) has(metric string) bool { return r.provider != nil && r.provider.Has(metric) }

func (r *fileRules) rules() []compat.RuleState {
	if r.provider == nil {
		return nil
	}
	return r.provider.Rules()
}

func (r *fileRules) run(ctx context.Context) {
	if r.provider != nil {
		r.provider.Run(ctx)
	}
}

func (r *fileRules) ready() error {
	if r.provider == nil {
		return nil
	}
	return r.provider.Ready()
}

// checkFile is --check for the file: all its problems at once.
func checkFile(o compat.Options) error {
	if !o.Enabled() {
		return nil
	}
	f, err := o.Load()
	if err != nil {
		return err
	}
	return f.Err()
}

package main

import (
	"log/slog"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/metadata"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// newFileRules returns the provider of the rules of a prometheus-adapter
// configuration file, nil if there is none.
func newFileRules(c config.Config, tables *cache.Cache, lister compat.Lister, pods compat.Pods, meta metadata.Interface, mapper apimeta.RESTMapper, log *slog.Logger) (*compat.Provider, error) {
	if !c.PrometheusAdapter.Enabled() {
		return nil, nil
	}
	return compat.New(c.PrometheusAdapter, compat.Sources{
		Watcher: tables, Lister: lister, Pods: pods, Objects: compat.Metadata{Client: meta}, Mapper: mapper,
	}, log)
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

package main

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"

	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/adapter/provider"
)

// newForwarder returns nil if nothing is to be forwarded.
func newForwarder(c forward.Config, known func(metric string) bool, reg prometheus.Registerer, log *slog.Logger) (*forward.Forwarder, error) {
	if c.External == nil {
		return nil, nil
	}
	f, err := forward.New(*c.External, known, reg, log)
	if err != nil {
		return nil, fmt.Errorf("forward.external: %w", err)
	}
	return f, nil
}

// passOn inserts the forwarder after authentication, authorization and audit,
// and before the adapter's own APIs.
func passOn(config *apiserver.Config, to *forward.Forwarder) {
	config.GenericConfig.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(to.Wrap(api), c)
	}
}

// newHierarchy prepares the informers of Services and of owners' owners.
func newHierarchy(pods provider.Pods, meta metadata.Interface, config *rest.Config) (*provider.Hierarchy, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the client for Services: %w", err)
	}
	h, err := provider.NewHierarchy(pods, meta, client)
	if err != nil {
		return nil, fmt.Errorf("preparing the workload informers: %w", err)
	}
	return h, nil
}

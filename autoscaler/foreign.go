package main

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
)

// newWatcher watches the gangs and queues of other people's APIs.
func newWatcher(rc *rest.Config, log *slog.Logger) (*foreign.Watcher, error) {
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	apis, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return foreign.NewWatcher(foreign.WatcherOptions{Client: objects, Discovery: apis, Log: log}), nil
}

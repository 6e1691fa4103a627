package main

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
)

// newWatcher watches the gangs and queues of other people's APIs. What changes of
// them is told, so that a gang does not wait for the next tick.
func newWatcher(rc *rest.Config, changed func(), log *slog.Logger) (*foreign.Watcher, error) {
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	apis, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return foreign.NewWatcher(foreign.WatcherOptions{Client: objects, Discovery: apis, Changed: changed, Log: log}), nil
}

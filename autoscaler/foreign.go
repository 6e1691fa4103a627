package main

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
)

// newWatcher watches gangs and queues of other APIs (JobSet, Kueue and others), and
// ProvisioningRequests of these classes. It calls
// changed when one of them changes, which ends the idle interval.
func newWatcher(rc *rest.Config, classes []string, changed func(), log *slog.Logger) (*foreign.Watcher, error) {
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	apis, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return foreign.NewWatcher(foreign.WatcherOptions{Client: objects, Discovery: apis, Classes: classes, Changed: changed, Log: log}), nil
}

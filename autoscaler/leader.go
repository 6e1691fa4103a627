package main

import (
	"fmt"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
)

// identity is unique to this process: after a restart it is another one.
func identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// newLock is the lease of the leader election. Its holder identity is given, since writes
// are checked against it.
func newLock(rc *rest.Config, c ElectionConfig, holder string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, c.Namespace, c.Name,
		resourcelock.ResourceLockConfig{Identity: holder}, rc, c.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("preparing lease %s/%s: %w", c.Namespace, c.Name, err)
	}
	return lock, nil
}

// newEpoch is this replica's epoch, for when it leads; nil in a dry run, which writes nothing. Without
// leader election there is no lease to check, and the replica that started last leads.
func newEpoch(c ElectionConfig, dryRun bool, holder string, live client.Reader, log *slog.Logger) *act.Epoch {
	if dryRun {
		return nil
	}
	o := act.EpochOptions{Holder: holder, Live: live, Log: log}
	if c.Enabled {
		o.Lease = client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
	}
	return act.NewEpoch(o)
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Hardware are the GPUs of this node; hardware.NVML implements it.
type Hardware interface {
	Read(ctx context.Context) (hardware.Machine, error)
	Destroy(ctx context.Context, uuid string, instance int) error
	Create(ctx context.Context, uuid string, at mig.Placement) error
	SetMode(ctx context.Context, uuid string, on bool) error
}

// PodResources returns the pod ("namespace/name") that each device ("MIG-…", "GPU-…") is allocated
// to.
type PodResources interface {
	Allocations(ctx context.Context) (map[string]string, error)
}

// Exporter can be asked to release GPUs, by UUID.
type Exporter interface {
	Quiesce(ctx context.Context, gpus []string, d time.Duration) error
	Resume(ctx context.Context, gpus []string) error
}

// Options of an Agent. All but Metrics, Log and Now are required.
type Options struct {
	Cluster      *Cluster
	Hardware     Hardware
	PodResources PodResources
	Exporter     Exporter
	Config       Config
	// Boot is the machine's boot ID, as in the node's status.
	Boot    string
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Agent is the agent of one node. Only Health is safe for concurrent use.
type Agent struct {
	// Health backs /livez and /readyz.
	Health *Health

	o         Options
	free      map[string]time.Time // since when an instance has not been seen allocated, by UUID
	published time.Time
	complaint string // logged last
}

// New returns an Agent.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	o.Hardware = metered{o.Hardware, o.Metrics}
	return &Agent{o: o, Health: newHealth(o.Config), free: map[string]time.Time{}}
}

// Run ticks on every change of the node and every period, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	changes := make(chan struct{}, 1)
	go a.o.Cluster.watch(ctx, changes)
	for ctx.Err() == nil {
		err := a.Tick(ctx)
		a.Health.ticked(err)
		if ctx.Err() == nil {
			a.warn(err)
		}
		select {
		case <-ctx.Done():
		case <-changes:
		case <-time.After(a.o.Config.Period.Duration):
		}
	}
}

// warn logs the error of a tick, once while it stays the same. A conflict is usual, since others
// write to the node too: the next tick reads it again.
func (a *Agent) warn(err error) {
	complaint := ""
	if err != nil && !apierrors.IsConflict(err) {
		complaint = err.Error()
	}
	if complaint != "" && complaint != a.complaint {
		a.o.Log.Warn("the node's GPUs cannot be managed", "error", err)
	}
	a.complaint = complaint
}

// Tick reads the node once and carries out the operation on it, if any, to its end.
func (a *Agent) Tick(ctx context.Context) error {
	a.Health.beat()
	node, err := a.o.Cluster.Node(ctx)
	if err != nil {
		return err
	}
	record, ok, err := partition.RecordOf(node)
	switch {
	case err != nil:
		return errors.Join(fmt.Errorf("GPUs left unchanged: %w", err), a.publish(ctx, node, false))
	case ok && record.Actuator == partition.ActuatorAgent && (record.Selected || record.Undo != nil):
		worked, err := a.serve(ctx, node, record)
		if worked {
			if node, err2 := a.o.Cluster.Node(ctx); err2 == nil {
				return errors.Join(err, a.publish(ctx, node, true))
			}
		}
		return errors.Join(err, a.publish(ctx, node, false))
	case !ok && node.Annotations[partition.AgentAnnotation] != "":
		err = a.o.Cluster.annotate(ctx, node.ResourceVersion, map[string]any{partition.AgentAnnotation: nil})
	}
	return errors.Join(err, a.publish(ctx, node, false))
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// assembly has what assemble needs.
type assembly struct {
	config   Config
	dryRun   bool
	log      *slog.Logger
	client   client.Client                                // reads from caches, and writes under epoch
	epoch    *act.Epoch                                   // nil in a dry run
	pods     func(context.Context) ([]*corev1.Pod, error) // the cache's own; nil: listed by client
	live     client.Reader                                // reads from the API server
	recorder record.EventRecorder
	registry prometheus.Registerer
	wake     <-chan struct{}
	changed  <-chan struct{} // nil: idleInterval does not apply
	foreign  func() (foreign.Objects, error)
	outlooks func() []observe.Outlook
}

// assemble returns the loop, and the reader of Prometheus, which runs beside it.
func assemble(a assembly) (*loop.Loop, *observe.Prometheus, error) {
	c := a.config
	reader, err := newReader(c, a.log)
	if err != nil {
		return nil, nil, err
	}
	configMap := client.ObjectKey{Namespace: c.MIGManager.Namespace, Name: c.MIGManager.ConfigMap}
	mig := partition.NewManager(a.client, a.live, configMap)
	providers, err := newProviders(a)
	if err != nil {
		return nil, nil, err
	}
	if a.epoch != nil { // clouds are no clients of the API server
		providers.May = a.epoch.May
	}
	policy := c.Policy.Plan()
	o := loop.Options{
		Observer: observe.New(observe.Options{
			Cluster: a.client, Pods: a.pods, Readings: reader.Latest, Pools: providers,
			ConfigMap: configMap, Foreign: a.foreign, Outlooks: a.outlooks, MaxAge: c.Prometheus.MaxAge.Duration, Log: a.log,
		}),
		Actor: act.New(act.Options{
			Client: a.client, Live: a.live, Pools: providers, Partition: mig, Policy: policy,
			ConfigDelay: c.MIGManager.ConfigDelay.Duration, Nominate: c.Nominate, DryRun: a.dryRun, Log: a.log,
		}),
		Store:        loop.NewStatusStore(a.client, a.live).Under(a.epoch),
		Policy:       policy,
		DryRun:       a.dryRun,
		Interval:     c.Interval.Duration,
		IdleInterval: c.IdleInterval.Duration,
		Changed:      a.changed,
		Wake:         a.wake,
		Settle:       c.Settle.Duration,
		Metrics:      loop.NewMetrics(a.registry),
		Log:          a.log,
	}
	if !a.dryRun {
		o.Publisher = loop.NewClusterPublisher(a.client, a.recorder, a.log)
	}
	l := loop.New(o)
	if c.IdleInterval.Duration > c.Interval.Duration {
		reader.AskRarely(c.Prometheus.MaxAge.Duration, l.State.Unhurried)
	}
	return l, reader, nil
}

func newReader(config Config, log *slog.Logger) (*observe.Prometheus, error) {
	c := config.Prometheus
	var querier observe.Querier = nowhere{}
	if c.URL == "" {
		log.Warn("prometheus.url is not set: allocations of GPUs are unknown")
	} else {
		p, err := prom.New(c.Config)
		if err != nil {
			return nil, fmt.Errorf("prometheus: %w", err)
		}
		querier = p
	}
	return observe.NewPrometheus(querier, trust.From(config.ExporterNamespaces), c.Interval.Duration, log), nil
}

// nowhere is the Querier without a prometheus.url.
type nowhere struct{}

func (nowhere) Query(context.Context, string, time.Time) (prom.Vector, error) {
	return nil, prom.ErrUnavailable
}

// newProviders returns all providers. A provider that no pool names makes no calls.
func newProviders(a assembly) (pools.Providers, error) {
	external := map[string]*externalgrpc.Client{}
	for name, config := range a.config.ExternalGRPC {
		c, err := externalgrpc.New(config)
		if err != nil {
			return pools.Providers{}, fmt.Errorf("externalGRPC.%s: %w", name, err)
		}
		external[name] = c
	}
	return pools.Providers{
		GRPC:    pools.NewGRPC(a.live, external, time.Now),
		Scale:   pools.NewScale(a.client, a.live),
		ASG:     pools.NewASG(pools.ASGOptions{Live: a.live, Config: awsConfig, Log: a.log}),
		History: pools.NewHistory(time.Now),
	}, nil
}

// awsConfig loads the AWS SDK's default credentials: environment, files, the pod's role.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	return awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(region), awsconfig.WithRetryMaxAttempts(2))
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
)

func newReader(config Config, log *slog.Logger) (*observe.Prometheus, error) {
	c := config.Prometheus
	var querier observe.Querier
	if c.URL == "" {
		log.Warn("prometheus.url is not set: only allocations of whole GPUs are known, from the pods on the nodes")
	} else if p, err := prom.New(c.Config); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	} else {
		querier = p
	}
	return &observe.Prometheus{Querier: querier, Trusted: trust.From(config.ExporterNamespaces), Every: c.Interval, MaxAge: c.MaxAge, Log: log}, nil
}

// newProviders returns all providers. A provider that no pool names makes no calls. epoch is nil in a dry run.
func newProviders(c Config, writer client.Client, live client.Reader, epoch *act.Epoch, log *slog.Logger) (pools.Providers, error) {
	external := map[string]*externalgrpc.Client{}
	for name, config := range c.ExternalGRPC {
		c, err := externalgrpc.New(config)
		if err != nil {
			return pools.Providers{}, fmt.Errorf("externalGRPC.%s: %w", name, err)
		}
		external[name] = c
	}
	out := pools.Providers{
		GRPC:    pools.NewGRPC(live, external, time.Now),
		Scale:   pools.NewScale(writer, live),
		ASG:     pools.NewASG(pools.ASGOptions{Live: live, Config: awsConfig, Log: log}),
		History: pools.NewHistory(time.Now),
	}
	if epoch != nil { // clouds are no clients of the API server
		out.May = epoch.May
	}
	return out, nil
}

// awsConfig loads the AWS SDK's default credentials: environment, files, the pod's role.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	return awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(region), awsconfig.WithRetryMaxAttempts(2))
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
)

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
		Fixed:   pools.NewFixed(a.client),
		ASG:     pools.NewASG(pools.ASGOptions{Live: a.live, Config: awsConfig, Log: a.log}),
		History: pools.NewHistory(time.Now),
	}, nil
}

// awsConfig loads the AWS SDK's default credentials: environment, files, the pod's role.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	return awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(region), awsconfig.WithRetryMaxAttempts(2))
}

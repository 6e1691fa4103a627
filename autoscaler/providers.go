package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// newProviders returns all providers. A provider that no pool names makes no calls.
func newProviders(a assembly, mig *partition.Manager) pools.Providers {
	return pools.Providers{
		KWOK:    pools.NewKWOK(a.client, a.live, mig),
		Scale:   pools.NewScale(a.client, a.live),
		Fixed:   pools.NewFixed(a.client),
		ASG:     pools.NewASG(pools.ASGOptions{Live: a.live, Config: awsConfig, Log: a.log}),
		History: pools.NewHistory(time.Now),
	}
}

// awsConfig loads the AWS SDK's default credentials: environment, files, the pod's role.
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	return awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion(region), awsconfig.WithRetryMaxAttempts(2))
}

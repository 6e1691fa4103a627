package pools

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// priceEvery is the interval of reading the spot price, which moves slowly.
const priceEvery = 5 * time.Minute

type spotPrice struct {
	at    time.Time
	price *float64
}

// spotPrice returns the highest price among the group's zones in US dollars an hour, nil if
// unknown.
func (a *ASG) spotPrice(ctx context.Context, pool *v1alpha1.GPUNodePool, group *types.AutoScalingGroup) *float64 {
	ref := pool.Spec.Provider.ASG
	if !pool.Spec.Spot || ref.InstanceType == "" {
		return nil
	}
	now := a.o.Now()
	a.mu.Lock()
	last := a.prices[pool.Name]
	a.mu.Unlock()
	if !last.at.IsZero() && now.Sub(last.at) < priceEvery {
		return last.price
	}
	price, err := a.askPrice(ctx, ref, group.AvailabilityZones)
	if err != nil {
		a.o.Log.Warn("the spot price cannot be read", "pool", pool.Name, "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prices[pool.Name] = spotPrice{now, price}
	return price
}

func (a *ASG) askPrice(ctx context.Context, ref *v1alpha1.ASGProvider, zones []string) (*float64, error) {
	config, err := a.config(ctx, ref.Region)
	if err != nil {
		return nil, err
	}
	out, err := ec2.NewFromConfig(config).DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{ec2types.InstanceType(ref.InstanceType)}, ProductDescriptions: []string{"Linux/UNIX"},
		StartTime: aws.Time(a.o.Now()),
	})
	if err != nil {
		return nil, fmt.Errorf("reading spot prices: %w", err)
	}
	return highest(out.SpotPriceHistory, zones)
}

// highest of the latest prices in the zones.
func highest(history []ec2types.SpotPrice, zones []string) (*float64, error) {
	newest, price := map[string]time.Time{}, map[string]float64{}
	for _, item := range history {
		zone, at := aws.ToString(item.AvailabilityZone), aws.ToTime(item.Timestamp)
		p, err := strconv.ParseFloat(aws.ToString(item.SpotPrice), 64)
		if err != nil || !(p >= 0 && p < 1e6) {
			return nil, fmt.Errorf("reading spot prices: %q in %s is no price", aws.ToString(item.SpotPrice), zone)
		}
		if !at.Before(newest[zone]) {
			newest[zone], price[zone] = at, p
		}
	}
	var out *float64
	for _, zone := range zones {
		if p, ok := price[zone]; ok && (out == nil || p > *out) {
			out = &p
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no spot price in the zones %v", zones)
	}
	return out, nil
}

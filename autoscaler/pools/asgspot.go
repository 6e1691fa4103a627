package pools

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

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
	now := a.o.Now()
	form := url.Values{
		"Action": {"DescribeSpotPriceHistory"}, "Version": {"2016-11-15"}, "InstanceType.1": {ref.InstanceType},
		"ProductDescription.1": {"Linux/UNIX"}, "StartTime": {now.UTC().Format(time.RFC3339)},
	}
	answer, err := call{service: "ec2", url: endpoint(config, "ec2"), body: []byte(form.Encode()),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}}.do(ctx, config, now)
	if err != nil {
		return nil, err
	}
	return highest(answer, zones)
}

// highest parses the answer to DescribeSpotPriceHistory.
func highest(answer []byte, zones []string) (*float64, error) {
	var history struct {
		Items []struct {
			Zone  string `xml:"availabilityZone"`
			Price string `xml:"spotPrice"`
			At    string `xml:"timestamp"`
		} `xml:"spotPriceHistorySet>item"`
	}
	if err := xml.Unmarshal(answer, &history); err != nil {
		return nil, fmt.Errorf("reading spot prices: %w", err)
	}
	newest, price := map[string]string{}, map[string]float64{}
	for _, item := range history.Items {
		p, err := strconv.ParseFloat(item.Price, 64)
		if err != nil || !(p >= 0 && p < 1e6) {
			return nil, fmt.Errorf("reading spot prices: %q in %s is no price", item.Price, item.Zone)
		}
		// Times have one format and are in UTC, so text order is time order.
		if item.At >= newest[item.Zone] {
			newest[item.Zone], price[item.Zone] = item.At, p
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

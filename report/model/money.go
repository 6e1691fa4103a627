package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
)

// pricing has what GPUs cost per hour.
type pricing struct {
	list     *prices.List // replaces the prices of the pools; nil for none
	ledger   ledger.Ledger
	currency string
	source   string             // shown in the quality badge
	spot     map[string]string  // class of price by pool
	node     map[string]float64 // price per node by pool
	size     map[string]Number  // GPUs per node, by pool
	mean     map[string]float64 // price per GPU by model
}

const noPrices = "no prices: set --prices, or spec.pricePerHour of the GPUNodePools"

// newPricing uses the price list if there is one, else the pools' prices.
func newPricing(a answers, in Input, led ledger.Ledger) pricing {
	c := pricing{list: in.Prices, ledger: led, spot: map[string]string{}, node: map[string]float64{}, size: gpusPerNode(a)}
	for _, s := range a.Vectors[query.PoolPrice] {
		pool := s.Labels.Get(metric.LabelPool)
		c.node[pool] = s.Value
		c.spot[pool] = "on demand"
		if s.Labels.Get(metric.LabelSpot) == "true" {
			c.spot[pool] = "spot"
		}
	}
	switch {
	case in.Prices != nil:
		c.currency = in.Prices.Currency
		c.source = fmt.Sprintf("%s, of %s", in.Prices.Source, in.Prices.Date)
	case len(c.node) > 0:
		c.currency = cmp.Or(in.Currency, "cost units")
		c.source = "pricePerHour of the GPUNodePools at the end of the window"
	default:
		c.source = cmp.Or(a.open(query.PoolPrice), noPrices)
	}
	c.mean = c.means()
	return c
}

// means returns the mean price of a GPU by model, over the pools with such GPUs, weighted by their GPU time.
func (c pricing) means() map[string]float64 {
	sum, weight := map[string]float64{}, map[string]float64{}
	for _, r := range c.ledger.Rows {
		if p, ok := c.price(r.Pool, r.Model).Get(); ok && r.Pool != "" {
			model := gpu.ProductName(r.Model)
			sum[model] += p * r.Time.Sum()
			weight[model] += r.Time.Sum()
		}
	}
	for model, time := range weight {
		sum[model] /= time
	}
	return sum
}

// price is the price of a GPU for an hour. If its pool is unknown, it is the mean price of the pools with
// such GPUs.
func (c pricing) price(pool, model string) Number {
	price, stated := c.node[pool]
	mean, known := c.mean[gpu.ProductName(model)]
	switch {
	case pool == "" && known:
		return Known(mean)
	case c.list != nil:
		spot, kind := c.spot[pool] == "spot", "on-demand"
		if spot {
			kind = "spot"
		}
		if v, ok := c.list.GPU(model, spot); ok {
			return Known(v)
		}
		return Unknown(fmt.Sprintf("the price list has no %s price of %s", kind, cmp.Or(gpu.ProductName(model), "GPUs without a model")))
	case len(c.node) == 0:
		return Unknown(c.source)
	case pool == "":
		return Unknown("no pool with a price has such GPUs")
	case !stated:
		return Unknown("pool " + pool + " has no price")
	}
	return Known(price).Over(c.size[pool])
}

// gpusPerNode returns the GPUs per node of each pool: the mean number of GPUs over the window, divided by the
// mean number of nodes.
func gpusPerNode(a answers) map[string]Number {
	gpus, nodes := map[string]float64{}, map[string]float64{}
	for _, l := range a.Lines[query.GPUs] {
		gpus[l.Labels.Get(metric.LabelPool)] += a.total(a.values(l))
	}
	for _, l := range a.Lines[query.PoolNodes] {
		if l.Labels.Get(metric.LabelKind) == "size" {
			nodes[l.Labels.Get(metric.LabelPool)] += a.total(a.values(l))
		}
	}
	per := map[string]Number{}
	for pool, n := range nodes {
		per[pool] = Unknown("pool " + pool + " had no nodes")
		if n > 0 && gpus[pool] > 0 {
			per[pool] = a.unless(Known(max(1, math.Round(gpus[pool]/n))), query.GPUs, query.PoolNodes)
		}
	}
	return per
}

// money is the price of hours of a GPU; the pool is empty if it is unknown. Without prices it is unknown,
// even for zero hours.
func (c pricing) money(pool, model string, hours float64) Number {
	if hours == 0 && c.currency != "" {
		return Known(0)
	}
	return c.price(pool, model).Times(hours)
}

package model

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/query"
)

// gpuPrices are prices of a GPU for an hour.
type gpuPrices struct {
	currency string
	source   string             // for the quality badge
	spot     map[string]string  // class by pool
	node     map[string]float64 // price of a node by pool
	size     map[string]Number  // GPUs per node by pool
}

const noPrices = "no prices: give --prices, or state pricePerHour in the GPUNodePools"

func (m *maker) newGPUPrices() gpuPrices {
	c := gpuPrices{spot: map[string]string{}, node: map[string]float64{}, size: m.gpusPerNode()}
	for _, s := range m.a.Vectors[query.PoolPrice] {
		pool := s.Labels.Get(metric.LabelPool)
		c.node[pool] = s.Value
		c.spot[pool] = "on demand"
		if s.Labels.Get(metric.LabelSpot) == "true" {
			c.spot[pool] = "spot"
		}
	}
	switch {
	case m.Prices != nil:
		c.currency = m.Prices.Currency
		c.source = fmt.Sprintf("%s, of %s", m.Prices.Source, m.Prices.Date)
	case len(c.node) > 0:
		c.currency = cmp.Or(m.Currency, "cost units")
		c.source = "pricePerHour of the GPUNodePools, as they were at the end of the window"
	default:
		c.source = cmp.Or(m.open(query.PoolPrice), noPrices)
	}
	return c
}

// price of a GPU for an hour.
func (m *maker) price(pool, model string) Number {
	price, stated := m.gpus.node[pool]
	switch {
	case m.Prices != nil:
		spot, kind := m.gpus.spot[pool] == "spot", "on-demand"
		if spot {
			kind = "spot"
		}
		if v, ok := m.Prices.GPU(model, spot); ok {
			return Known(v)
		}
		return Unknown(fmt.Sprintf("the price list has no %s price of %s", kind, cmp.Or(gpu.ProductName(model), "GPUs without a model")))
	case len(m.gpus.node) == 0:
		return Unknown(m.gpus.source)
	case pool == "":
		return m.anyPool(model)
	case !stated:
		return Unknown("pool " + pool + " states no price")
	}
	return Known(price).Over(m.gpus.size[pool])
}

// anyPool is the price of a GPU of unknown pool: that of the pools with such GPUs, if
// they agree.
func (m *maker) anyPool(model string) Number {
	price := Unknown("no pool with a price has such GPUs")
	for _, s := range m.l.Series {
		p, priced := m.gpus.node[s.Pool]
		if !priced || gpu.ProductName(s.Model) != gpu.ProductName(model) {
			continue
		}
		device := Known(p).Over(m.gpus.size[s.Pool])
		if old, ok := price.Get(); ok && old != device.Or(old) {
			return Unknown("pools with such GPUs have different prices")
		}
		price = device
	}
	return price
}

// gpusPerNode is the GPUs per node of each pool: mean GPUs over the window by mean nodes.
func (m *maker) gpusPerNode() map[string]Number {
	gpus, nodes := map[string]float64{}, map[string]float64{}
	for _, l := range m.a.Lines[query.GPUs] {
		gpus[l.Labels.Get(metric.LabelPool)] += m.total(m.values(l))
	}
	for _, l := range m.a.Lines[query.PoolNodes] {
		if l.Labels.Get(metric.LabelKind) == "size" {
			nodes[l.Labels.Get(metric.LabelPool)] += m.total(m.values(l))
		}
	}
	per := map[string]Number{}
	for pool, n := range nodes {
		per[pool] = Unknown("pool " + pool + " had no nodes")
		if n > 0 && gpus[pool] > 0 {
			per[pool] = m.unless(Known(max(1, math.Round(gpus[pool]/n))), query.GPUs, query.PoolNodes)
		}
	}
	return per
}

// money of hours of a GPU. Without prices it is unknown, even of zero hours.
func (m *maker) money(pool, model string, hours float64) Number {
	if hours == 0 && m.gpus.currency != "" {
		return Known(0)
	}
	return m.price(pool, model).Times(hours)
}

// modelMoney is that of a GPU of known model and unknown pool: the mean of the pools
// with such GPUs, weighted by GPUs.
func (m *maker) modelMoney(model string, hours float64) Number {
	if m.Prices != nil {
		return m.money("", model, hours)
	}
	sum, weight := 0.0, 0.0
	for _, r := range m.l.Rows {
		if gpu.ProductName(r.Model) != gpu.ProductName(model) {
			continue
		}
		if p, ok := m.price(r.Pool, r.Model).Get(); ok {
			sum += p * r.Time.Sum()
			weight += r.Time.Sum()
		}
	}
	if weight == 0 {
		return m.money("", model, hours)
	}
	return Known(sum / weight * hours)
}

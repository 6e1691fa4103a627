package fleet

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// nothingCame is the reason of a request after which no node came.
const nothingCame = "NothingCame"

type poolReason struct{ pool, reason string }

// counts are what happened to pools: of those there are, whatever their number.
type counts struct {
	failures      map[poolReason]float64
	interruptions map[string]float64
	// inRow is how many failures in a row a pool's past has; refused are the pools of
	// which the last round's actions failed, which are among them.
	inRow   map[string]int
	refused map[string]bool
	noticed map[nodeKey]bool
	begun   bool
}

// nodeKey tells a node from another of the same name.
type nodeKey struct {
	name    string
	created time.Time
}

func newCounts() *counts {
	return &counts{failures: map[poolReason]float64{}, interruptions: map[string]float64{},
		inRow: map[string]int{}, refused: map[string]bool{}, noticed: map[nodeKey]bool{}}
}

// observe counts what is new. What the first round finds is older than we are.
func (c *counts) observe(r *Round) {
	there := map[string]bool{}
	for i := range r.Pools {
		name := r.Pools[i].Name
		there[name] = true
		c.interruptions[name] += 0 // there from the first on, or the first increase would not be seen
		c.failures[poolReason{name, nothingCame}] += 0
		inRow := r.Learned[name].Failures
		if c.begun && inRow > c.inRow[name] && !c.refused[name] {
			c.failures[poolReason{name, nothingCame}]++
		}
		c.inRow[name] = inRow
	}
	clear(c.refused)
	for _, result := range r.Results {
		a := &result.Action
		if !there[a.Pool] {
			continue
		}
		at := poolReason{a.Pool, string(a.Reason)}
		c.failures[at] += 0
		if result.Outcome == act.Failed {
			c.failures[at]++
			c.refused[a.Pool] = true
		}
	}
	c.notices(r.Nodes)
	for at := range c.failures {
		if !there[at.pool] {
			delete(c.failures, at)
		}
	}
	for pool := range c.interruptions {
		if !there[pool] {
			delete(c.interruptions, pool)
			delete(c.inRow, pool)
		}
	}
	c.begun = true
}

// notices counts the nodes that their provider has newly given notice of.
func (c *counts) notices(nodes []plan.Node) {
	next := map[nodeKey]bool{}
	for i := range nodes {
		n := &nodes[i]
		if n.LeavesAt.IsZero() || n.Pool == "" {
			continue
		}
		key := nodeKey{n.Name, n.Created}
		next[key] = true
		if c.begun && !c.noticed[key] {
			c.interruptions[n.Pool]++
		}
	}
	c.noticed = next
}

func (c *counts) collect(descs map[string]*prometheus.Desc, ch chan<- prometheus.Metric) {
	failures, interruptions := descs[metric.AutoscalerPoolFailures.Name], descs[metric.AutoscalerInterruptions.Name]
	for _, at := range sortedKeys(c.failures, func(a, b poolReason) int {
		return cmp.Or(strings.Compare(a.pool, b.pool), strings.Compare(a.reason, b.reason))
	}) {
		ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, c.failures[at], at.pool, named(at.reason))
	}
	for _, pool := range sortedKeys(c.interruptions, strings.Compare) {
		ch <- prometheus.MustNewConstMetric(interruptions, prometheus.CounterValue, c.interruptions[pool], pool)
	}
}

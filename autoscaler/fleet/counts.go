package fleet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// nothingCame is the reason of a scale-up after which no node was registered.
const nothingCame = "NothingCame"

// counts are counters of events of pools, without a bound on the number of pools.
type counts struct {
	failures, interruptions *prometheus.CounterVec
	// inRow is the number of successive failures by pool. refused are the pools whose
	// actions failed in the last reconcile; inRow includes those failures.
	inRow       map[string]int
	refused     map[string]bool
	interrupted map[nodeKey]bool
	begun       bool
}

// nodeKey distinguishes nodes of the same name.
type nodeKey struct {
	name    string
	created time.Time
}

func newCounts() *counts {
	return &counts{failures: counters(metric.AutoscalerPoolFailures), interruptions: counters(metric.AutoscalerInterruptions),
		inRow: map[string]int{}, refused: map[string]bool{}, interrupted: map[nodeKey]bool{}}
}

// observe counts new events. The first reconcile is the baseline.
func (c *counts) observe(r *Reconcile) {
	exists := map[string]bool{}
	for i := range r.Pools {
		name := r.Pools[i].Name
		exists[name] = true
		c.interruptions.WithLabelValues(name) // exported from the start, so that rate() sees the first increase
		came := c.failures.WithLabelValues(name, nothingCame)
		inRow := r.Learned[name].Failures
		if c.begun && inRow > c.inRow[name] && !c.refused[name] {
			came.Inc()
		}
		c.inRow[name] = inRow
	}
	clear(c.refused)
	for _, result := range r.Results {
		a := &result.Action
		if !exists[a.Pool] {
			continue
		}
		failures := c.failures.WithLabelValues(a.Pool, named(string(a.Reason)))
		if result.Outcome == act.Failed {
			failures.Inc()
			c.refused[a.Pool] = true
		}
	}
	c.countInterruptions(r.Nodes)
	for pool := range c.inRow {
		if !exists[pool] {
			gone := prometheus.Labels{metric.LabelPool: pool}
			c.failures.DeletePartialMatch(gone)
			c.interruptions.DeletePartialMatch(gone)
			delete(c.inRow, pool)
		}
	}
	c.begun = true
}

// countInterruptions counts the nodes that are newly interrupted.
func (c *counts) countInterruptions(nodes []plan.Node) {
	next := map[nodeKey]bool{}
	for i := range nodes {
		n := &nodes[i]
		if n.LeavesAt.IsZero() || n.Pool == "" {
			continue
		}
		key := nodeKey{n.Name, n.Created}
		next[key] = true
		if c.begun && !c.interrupted[key] {
			c.interruptions.WithLabelValues(n.Pool).Inc()
		}
	}
	c.interrupted = next
}

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// nothingCame is the reason of a scale-up after which no node was registered.
const nothingCame = "NothingCame"

type poolReason struct{ pool, reason string }

// counts are counters of events of pools, without a bound on the number of pools.
type counts struct {
	failures      map[poolReason]float64
	interruptions map[string]float64
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
	return &counts{failures: map[poolReason]float64{}, interruptions: map[string]float64{},
		inRow: map[string]int{}, refused: map[string]bool{}, interrupted: map[nodeKey]bool{}}
}

// observe counts new events. The first reconcile is the baseline.
func (c *counts) observe(r *Reconcile) {
	exists := map[string]bool{}
	for i := range r.Pools {
		name := r.Pools[i].Name
		exists[name] = true
		c.interruptions[name] += 0 // exported from the start, so that rate() sees the first increase
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
		if !exists[a.Pool] {
			continue
		}
		at := poolReason{a.Pool, string(a.Reason)}
		c.failures[at] += 0
		if result.Outcome == act.Failed {
			c.failures[at]++
			c.refused[a.Pool] = true
		}
	}
	c.countInterruptions(r.Nodes)
	for at := range c.failures {
		if !exists[at.pool] {
			delete(c.failures, at)
		}
	}
	for pool := range c.interruptions {
		if !exists[pool] {
			delete(c.interruptions, pool)
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
			c.interruptions[n.Pool]++
		}
	}
	c.interrupted = next
}

func (c *counts) collect(descs map[string]*prometheus.Desc, ch chan<- prometheus.Metric) {
	failures, interruptions := descs[metric.AutoscalerPoolFailures.Name], descs[metric.AutoscalerInterruptions.Name]
	for _, at := range slices.SortedFunc(maps.Keys(c.failures), func(a, b poolReason) int {
		return cmp.Or(strings.Compare(a.pool, b.pool), strings.Compare(a.reason, b.reason))
	}) {
		ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, c.failures[at], at.pool, named(at.reason))
	}
	for _, pool := range slices.Sorted(maps.Keys(c.interruptions)) {
		ch <- prometheus.MustNewConstMetric(interruptions, prometheus.CounterValue, c.interruptions[pool], pool)
	}
}

package model

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/query"
)

// replace is about nodes with sick GPUs.
func (m *maker) replace() []Action {
	var all []Action
	d := m.a.Dialect
	for _, n := range m.r.Reliability.Nodes {
		expression := "count (max by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUInfo.Name, query.Equal(metric.LabelNode, n.Node)) + ") and on (" + metric.LabelGPUUUID +
			") (min by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUHealthy.Name) + ") == 0))"
		all = append(all, m.action(Action{
			Kind: "replace", Effect: frees, Title: fmt.Sprintf("Node %s had sick GPUs", n.Node),
			Hours: n.Hours, Money: m.nodeMoney(n.Node, n.Hours.Or(0)),
			Patch: fmt.Sprintf("kubectl drain %s --ignore-daemonsets --delete-emptydir-data   # then return it to its owner", shell(n.Node)),
			Risk:  "Pods on the node's other GPUs are evicted.", Query: m.sampled(expression, 1),
		}, n.Node))
	}
	return all
}

func (m *maker) nodeMoney(node string, hours float64) Number {
	for _, s := range m.a.Vectors[query.Devices] {
		if s.Labels.Get(metric.LabelNode) == node {
			return m.modelMoney(s.Labels.Get(metric.LabelModel), hours)
		}
	}
	return Unknown("the node's model is not known")
}

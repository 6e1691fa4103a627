package observe

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// offer is what the API says a node has for its pods in all, held or not. It is
// nil where a resource is of a dialect that counts parts of cards: those say
// less about cards than the cards themselves.
func offer(n *corev1.Node) *demand.Demand {
	var each []demand.Demand
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		amount := n.Status.Allocatable[name]
		one, err := demandOf(string(name))
		if err != nil || one.Fraction != nil {
			return nil
		}
		if one.Zero() || amount.Value() <= 0 {
			continue
		}
		d, err := demand.FromResources(map[string]int64{string(name): amount.Value()})
		if err != nil {
			return nil
		}
		each = append(each, d)
	}
	all, err := demand.Sum(each...)
	if err != nil { // cards of two vendors: there is no such node to plan for
		return nil
	}
	return &all
}

// spread deals the instances that a node offers out to its cards, as many to
// each as fit, where no config says how they lie; nil where they do not fit. That
// is one way they can lie: which card has which is as unknown as who holds them.
func spread(offered map[string]int64, cards []plan.Card, tables mig.Tables) partition.NodeLayout {
	if len(offered) == 0 || len(cards) == 0 {
		return nil
	}
	left := maps.Clone(offered)
	out := make(partition.NodeLayout, len(cards))
	for i := range cards {
		table, ok := tables.ForModel(cards[i].Model.Name)
		if !ok {
			return nil
		}
		out[i] = partition.CardLayout{MIG: true, Counts: map[string]int{}}
		var have mig.Layout
		for _, resource := range slices.Sorted(maps.Keys(left)) {
			name, _ := mig.ProfileOfResource(resource)
			profile, ok := table.Exact(name)
			// A card gets its fair share first, so that equal cards stay equal.
			for share := (left[resource] + int64(len(cards)-i) - 1) / int64(len(cards)-i); ok && share > 0; share-- {
				next, fits := table.Arrange(nil, append(mig.Counts(have), mig.Count{Profile: profile, N: 1}))
				if !fits {
					break
				}
				have = next
				out[i].Counts[name]++
				left[resource]--
			}
		}
	}
	for _, n := range left {
		if n > 0 {
			return nil
		}
	}
	return out
}

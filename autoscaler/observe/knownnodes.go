package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// knownNodes keeps what node objects say, and their cards of the round before. A nil
// knownNodes keeps nothing.
type knownNodes struct{ perVersion[knownNode] }

type knownNode struct {
	says  nodeSays
	cards []plan.Card // of the last round
}

// nodeSays is what a node's object says by itself: no clock, configuration or provider
// is asked.
type nodeSays struct {
	// Node is all that there is but for Pool, LeavesAt and Cards. Others may have more
	// to say to Cordoned and NoScaleDown.
	plan.Node
	devices bool // it offers some
}

// of returns what is known of a node. One that no API server has numbered is read each
// time, and its cards are never those of before.
func (k *knownNodes) of(c *Claims, n *corev1.Node) *knownNode {
	if k == nil || !numbered(n) {
		return &knownNode{says: readNode(c, n)}
	}
	return k.get(n, func(known *knownNode) { known.says = readNode(c, n) })
}

// keep returns the node's cards: those of the round before where they are the same, as
// they mostly are, since cards are a sixth of what a round would leave to the collector.
// What it is given may be used for another node afterwards.
func (n *knownNode) keep(cards []plan.Card) []plan.Card {
	same := n.cards != nil && len(n.cards) == len(cards)
	for i := 0; same && i < len(cards); i++ {
		same = sameCard(&n.cards[i], &cards[i])
	}
	if !same {
		n.cards = append(make([]plan.Card, 0, len(cards)), cards...)
	}
	return n.cards
}

// sameCard compares everything there is of a card.
func sameCard(a, b *plan.Card) bool {
	return a.Device == b.Device && a.MIG == b.MIG && a.HoldersKnown == b.HoldersKnown && a.Busy == b.Busy &&
		a.IdleSince == b.IdleSince && a.UnusedSince == b.UnusedSince &&
		slices.Equal(a.Holders, b.Holders) && slices.Equal(a.Instances, b.Instances)
}

func readNode(c *Claims, n *corev1.Node) nodeSays {
	out := nodeSays{devices: offersDevices(n), Node: plan.Node{
		Name: n.Name, Labels: n.Labels,
		Ready: ready(n) && n.DeletionTimestamp == nil, Cordoned: n.Spec.Unschedulable,
		CordonedBy:  cordonedBy(n),
		Created:     n.CreationTimestamp.Time,
		CPUMilli:    n.Status.Allocatable.Cpu().MilliValue(),
		MemoryMi:    n.Status.Allocatable.Memory().Value() >> 20,
		Operation:   partition.OperationOf(n),
		NoScaleDown: v1alpha1.ScaleDownDisabled(n),
		Allocatable: offer(n),
		Drain:       draining(n),
		HoldsData:   holdsData(n),
		UID:         string(n.UID),
		Others:      c.others(n.Status.Allocatable),
	}}
	for _, t := range n.Spec.Taints {
		if !lifecycleTaints[t.Key] {
			out.Taints = append(out.Taints, plan.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return out
}

package plan

import "time"

// Policy is how the operator wants decisions to be made.
type Policy struct {
	// Freeze stops every action; verdicts are still given.
	Freeze bool
	// MaxActionsPerRound bounds one plan.
	MaxActionsPerRound int
	// MaxNodesPerScaleUp bounds one resize.
	MaxNodesPerScaleUp int
	// MaxRemovalsPerRound bounds nodes given back in one plan.
	MaxRemovalsPerRound int
	// ScaleDownCooldown after a scale up, and between scale downs of a pool.
	ScaleDownCooldown time.Duration
	// RepartitionCooldown between repartitions of one node.
	RepartitionCooldown time.Duration
	// RepartitionTimeout is the deadline of a repartition.
	RepartitionTimeout time.Duration
	// MaxUnready is the share of nodes not ready above which everything holds, 0 … 1.
	MaxUnready float64
	// OKUnready nodes not ready hold nothing, whatever their share: of two nodes
	// one is half, and still only one.
	OKUnready int
	// WaitCostPerHour is what an hour of one pending card-equivalent costs, in
	// the currency of the pools' prices; it weighs waiting against money.
	WaitCostPerHour float64
	// DisruptionCost of one repartition, in the same currency.
	DisruptionCost float64
	// NodeLife is how long a new node is expected to be kept.
	NodeLife time.Duration
	// NodeOverdue is how long a node may take to become ready before it is no
	// longer believed in; three times the pool's ReadyAfter where that is longer.
	NodeOverdue time.Duration
	// RepartitionLife is how long a new layout is expected to serve.
	RepartitionLife time.Duration
}

// DefaultPolicy is what a cluster gets that says nothing.
func DefaultPolicy() Policy {
	return Policy{
		MaxActionsPerRound:  20,
		MaxNodesPerScaleUp:  100,
		MaxRemovalsPerRound: 10,
		ScaleDownCooldown:   10 * time.Minute,
		RepartitionCooldown: time.Minute,
		RepartitionTimeout:  5 * time.Minute,
		MaxUnready:          0.45,
		OKUnready:           3,
		WaitCostPerHour:     20,
		DisruptionCost:      0.02,
		NodeLife:            time.Hour,
		NodeOverdue:         10 * time.Minute,
		RepartitionLife:     time.Hour,
	}
}

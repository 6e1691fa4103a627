package plan

import "time"

// Policy is how the operator wants decisions to be made.
type Policy struct {
	// Freeze stops every action; verdicts are still given.
	Freeze bool
	// MaxActionsPerReconcile bounds one plan.
	MaxActionsPerReconcile int
	// MaxNodesPerScaleUp bounds one resize.
	MaxNodesPerScaleUp int
	// MaxRemovalsPerReconcile bounds nodes given back in one plan.
	MaxRemovalsPerReconcile int
	// ScaleDownCooldown is how long after a scale up of a pool nothing is taken from it.
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
	// MaxIdleAtOnce is the share of nodes that may come to look idle within IdleHold
	// before nothing is given back or taken for being idle, 0 … 1; 1 turns it off.
	MaxIdleAtOnce float64
	// IdleHold is how long that lasts after the last of them.
	IdleHold time.Duration
	// OKIdle nodes that look idle at once hold nothing, whatever their share.
	OKIdle int
	// WaitCostPerHour is what an hour of one pending GPU-equivalent costs, in
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
	// MaxNodesPerHour bounds what a pool may be asked for within an hour.
	MaxNodesPerHour int
	// MaxRemovalsPerTenMinutes bounds the nodes given back within ten minutes, over
	// all pools: what looks like a surplus may be a mistake that somebody notices.
	MaxRemovalsPerTenMinutes int
	// MaxRemovalShare bounds the share of a pool given back in one plan, 0 … 1;
	// one node is always allowed.
	MaxRemovalShare float64
	// RemovalInterval between two plans that give back nodes of a pool.
	RemovalInterval time.Duration
	// ScaleUpBorrowed allows nodes to be bought for demand beyond its tenant's
	// guarantee. Without it such demand gets what is free, or can be repartitioned.
	ScaleUpBorrowed bool
	// MaxEvictionsPerReconcile bounds the pods asked to leave in one plan; 0 turns
	// reclaiming off.
	MaxEvictionsPerReconcile int
	// EvictionCost is what moving one GPU-equivalent of work costs, in the
	// currency of the pools' prices: what is computed again, and patience.
	EvictionCost float64
	// MaxDrains bounds the nodes being drained at a time; 0 turns it off.
	MaxDrains int
	// DrainTimeout is the deadline of a drain.
	DrainTimeout time.Duration
	// DrainCooldown between drains of one pool.
	DrainCooldown time.Duration
	// Headroom says which end of a forecast is prepared for.
	Headroom Headroom
	// HeadroomWeight is what being late for a forecast costs against being late
	// for a pod that waits, 0 … 1.
	HeadroomWeight float64
	// SickAfter is how long a GPU must have been sick before its node is
	// replaced; 0 turns replacing off.
	SickAfter time.Duration
	// ReplaceInterval between two replacements in one pool.
	ReplaceInterval time.Duration
	// MaxSickShare is the share of a pool above which sick nodes are not replaced:
	// then it is not the nodes.
	MaxSickShare float64
}

// Headroom is an end of a forecast.
type Headroom string

// Headrooms. The set is closed.
const (
	HeadroomNone     Headroom = "none"
	HeadroomLow      Headroom = "low"
	HeadroomExpected Headroom = "expected"
	HeadroomHigh     Headroom = "high"
)

// DefaultPolicy is what a cluster gets that says nothing.
func DefaultPolicy() Policy {
	return Policy{
		MaxActionsPerReconcile:  20,
		MaxNodesPerScaleUp:      100,
		MaxRemovalsPerReconcile: 10,
		ScaleDownCooldown:       10 * time.Minute,
		RepartitionCooldown:     time.Minute,
		RepartitionTimeout:      5 * time.Minute,
		MaxUnready:              0.45,
		OKUnready:               3,
		MaxIdleAtOnce:           0.5,
		IdleHold:                15 * time.Minute,
		OKIdle:                  10,
		WaitCostPerHour:         20,
		DisruptionCost:          0.02,
		NodeLife:                time.Hour,
		NodeOverdue:             10 * time.Minute,
		RepartitionLife:         time.Hour,

		MaxNodesPerHour:          1000,
		MaxRemovalShare:          0.2,
		MaxRemovalsPerTenMinutes: 150,
		RemovalInterval:          10 * time.Second,
		MaxEvictionsPerReconcile: 20,
		EvictionCost:             0.5,
		MaxDrains:                1,
		DrainTimeout:             10 * time.Minute,
		DrainCooldown:            10 * time.Minute,
		Headroom:                 HeadroomExpected,
		HeadroomWeight:           0.5,
		SickAfter:                10 * time.Minute,
		ReplaceInterval:          time.Hour,
		MaxSickShare:             0.2,
	}
}

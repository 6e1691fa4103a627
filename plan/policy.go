package plan

import "time"

// Policy configures decisions. The names are those of configuration files.
type Policy struct {
	// Freeze stops every action; verdicts are still made.
	Freeze bool `json:"freeze"`
	// MaxActionsPerReconcile bounds the actions of one plan that begin something. Separately, it
	// bounds those that end a repartition.
	MaxActionsPerReconcile int `json:"maxActionsPerReconcile"`
	// MaxNodesPerScaleUp bounds the nodes that one plan adds to a pool.
	MaxNodesPerScaleUp int `json:"maxNodesPerScaleUp"`
	// MaxRemovalsPerReconcile bounds the nodes that one plan removes.
	MaxRemovalsPerReconcile int `json:"maxRemovalsPerReconcile"`
	// SoftTaints has the scheduler prefer other nodes to empty ones that are to be removed.
	SoftTaints bool `json:"softTaints"`
	// ScaleDownCooldown is how long after a scale up of a pool none of its nodes
	// is removed.
	ScaleDownCooldown time.Duration `json:"scaleDownCooldown"`
	// RepartitionCooldown is the least time between repartitions of one node.
	RepartitionCooldown time.Duration `json:"repartitionCooldown"`
	// RepartitionTimeout is the deadline of a repartition.
	RepartitionTimeout time.Duration `json:"repartitionTimeout"`
	// MaxUnready is the share of unready nodes above which no action is taken, 0 …
	// 1.
	MaxUnready float64 `json:"maxUnready"`
	// OKUnready is the number of unready nodes that stop nothing, whatever their
	// share: of two nodes, one is half.
	OKUnready int `json:"okUnready"`
	// MaxIdleAtOnce is the share of nodes that may become idle within IdleHold
	// before no node is removed and no pod evicted for being idle, 0 … 1; 1 turns
	// it off.
	MaxIdleAtOnce float64 `json:"maxIdleAtOnce"`
	// IdleHold is the time that MaxIdleAtOnce looks back: nothing is removed or evicted for being
	// idle while too many nodes have been idle for less than this.
	IdleHold time.Duration `json:"idleHold"`
	// OKIdle is the number of nodes that may become idle at once, whatever their
	// share.
	OKIdle int `json:"okIdle"`
	// WaitCostPerHour is the cost of one pending GPU equivalent for an hour, in
	// the currency of the pools' prices; it weighs pending time against money.
	WaitCostPerHour float64 `json:"waitCostPerHour"`
	// DisruptionCost is the cost of one repartition, in the same currency.
	DisruptionCost float64 `json:"disruptionCost"`
	// NodeLife is how long a new node is expected to be kept.
	NodeLife time.Duration `json:"nodeLife"`
	// NodeOverdue is how long a node may take to become ready before it no longer
	// counts as upcoming; three times the pool's ReadyAfter where that is longer.
	NodeOverdue time.Duration `json:"nodeOverdue"`
	// MaxNodesPerHour bounds the nodes added to one pool within an hour.
	MaxNodesPerHour int `json:"maxNodesPerHour"`
	// MaxRemovalsPerTenMinutes bounds the nodes removed within ten minutes, over
	// all pools: what looks like a surplus may be a mistake, and this gives users
	// time to notice.
	MaxRemovalsPerTenMinutes int `json:"maxRemovalsPerTenMinutes"`
	// MaxRemovalShare bounds the share of a pool removed in one plan, 0 … 1; one
	// node is always allowed.
	MaxRemovalShare float64 `json:"maxRemovalShare"`
	// RemovalInterval is the least time between two plans that remove nodes of a
	// pool.
	RemovalInterval time.Duration `json:"removalInterval"`
	// ScaleUpBorrowed adds nodes for demand beyond its tenant's guarantee. Without
	// it such demand gets free capacity and repartitions only.
	ScaleUpBorrowed bool `json:"scaleUpBorrowed"`
	// ReclaimBorrowed evicts pods on borrowed capacity for another tenant's guarantee.
	// Without it a guarantee is served by free capacity, repartitions and new nodes
	// only.
	ReclaimBorrowed bool `json:"reclaimBorrowed"`
	// MaxEvictionsPerReconcile bounds the evictions for reclaim in one plan; 0
	// turns reclaiming off.
	MaxEvictionsPerReconcile int `json:"maxEvictionsPerReconcile"`
	// EvictionCost is the cost of interrupting one GPU equivalent, in the currency
	// of the pools' prices. The work to repeat and the wait until it runs again are
	// counted besides.
	EvictionCost float64 `json:"evictionCost"`
	// SkipNodesWithLocalStorage evicts no pod with local storage, and so drains no
	// node with one. An interrupted node is drained all the same: its storage is
	// lost with it.
	SkipNodesWithLocalStorage bool `json:"skipNodesWithLocalStorage"`
	// ExpendablePodsPriorityCutoff is the priority below which pods are expendable:
	// nothing is added, repartitioned or reserved for them, and they keep no node
	// from being removed.
	ExpendablePodsPriorityCutoff int `json:"expendablePodsPriorityCutoff"`
	// BalanceSimilarNodeGroups adds nodes to the smallest of the pools that differ
	// only in where their nodes are.
	BalanceSimilarNodeGroups bool `json:"balanceSimilarNodeGroups"`
	// MaxDrains bounds the nodes being drained at a time; 0 turns it off.
	MaxDrains int `json:"maxDrains"`
	// DrainTimeout is the deadline of a drain.
	DrainTimeout time.Duration `json:"drainTimeout"`
	// DrainCooldown is the least time between drains of one pool.
	DrainCooldown time.Duration `json:"drainCooldown"`
	// Headroom is the end of a forecast that is prepared for.
	Headroom Headroom `json:"headroom"`
	// HeadroomWeight is the cost of being late for a forecast replica relative to
	// that of a pending pod, 0 … 1.
	HeadroomWeight float64 `json:"headroomWeight"`
	// SickAfter is how long a GPU must have been sick before its node is replaced;
	// 0 turns replacing off.
	SickAfter time.Duration `json:"sickAfter"`
	// ReplaceInterval is the least time between two replacements in one pool.
	ReplaceInterval time.Duration `json:"replaceInterval"`
	// MaxSickShare is the share of a pool above which sick nodes are not replaced:
	// a common cause is likely then.
	MaxSickShare float64 `json:"maxSickShare"`
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

// DefaultPolicy is the policy of a cluster that configures none.
func DefaultPolicy() Policy {
	return Policy{
		MaxActionsPerReconcile:  20,
		MaxNodesPerScaleUp:      100,
		MaxRemovalsPerReconcile: 10,
		SoftTaints:              true,
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

		MaxNodesPerHour:           1000,
		MaxRemovalShare:           0.2,
		MaxRemovalsPerTenMinutes:  150,
		RemovalInterval:           10 * time.Second,
		MaxEvictionsPerReconcile:  20,
		EvictionCost:              0.5,
		MaxDrains:                 1,
		SkipNodesWithLocalStorage: true,

		ExpendablePodsPriorityCutoff: -10,

		DrainTimeout:    10 * time.Minute,
		DrainCooldown:   10 * time.Minute,
		Headroom:        HeadroomExpected,
		HeadroomWeight:  0.5,
		SickAfter:       10 * time.Minute,
		ReplaceInterval: time.Hour,
		MaxSickShare:    0.2,
	}
}

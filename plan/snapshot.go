package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Snapshot is everything a plan may depend on. Slices may come in any order;
// Make sorts its own copy. A copy of a Snapshot's slices is a copy of it.
type Snapshot struct {
	Now    time.Time
	Pools  []Pool
	Nodes  []Node
	Pods   []Pod
	Memory Memory
}

// Pool is a group of nodes that can grow and shrink.
type Pool struct {
	Name     string
	Min, Max int
	// Target is the size last asked of the provider; Size counts the nodes that
	// exist as Node objects, ready or not.
	Target, Size int
	// Template is what a new node of this pool will look like.
	Template Template
	// PricePerHour of one node, in the currency of the policy. 0 means unpriced,
	// which costs as if it were 1 per card.
	PricePerHour float64
	Spot         bool
	// ReadyAfter is the time from the request to a schedulable node, as learned.
	ReadyAfter time.Duration
	// BackoffUntil is set while the provider fails to deliver.
	BackoffUntil time.Time
	Freeze       bool
	// MIG says what the planner may do to the cards of this pool.
	MIG PoolMIG
	// IdleAfter is how long a node must be empty before it is given back.
	IdleAfter time.Duration
}

// PoolMIG are the repartitioning rules of a pool.
type PoolMIG struct {
	// Repartition allows changing layouts of this pool's cards at all.
	Repartition bool
	// KeepsBusy is true where the actuator can leave busy instances in place
	// (our agent), false where a card must be empty (mig-manager).
	KeepsBusy bool
	// Allowed profiles; empty means all the product has.
	Allowed []mig.Profile
	// IdleAfter is how long an instance must be idle before it may be destroyed.
	IdleAfter time.Duration
	// Duration is how long a repartition takes, as learned.
	Duration time.Duration
}

// Template of a node that does not exist yet.
type Template struct {
	Labels   map[string]string
	Taints   []Taint
	CPUMilli int64
	MemoryMi int64
	Cards    []Card // with the boot layout; UUIDs and holders are empty
}

// Taint as Kubernetes has it.
type Taint struct{ Key, Value, Effect string }

// Toleration as Kubernetes has it.
type Toleration struct{ Key, Operator, Value, Effect string }

// Node is a node that exists in the cluster.
type Node struct {
	Name     string
	Pool     string // empty: not ours, never touched
	Labels   map[string]string
	Taints   []Taint
	Ready    bool
	Cordoned bool // by anyone
	// CordonedBy is the operation of ours that cordoned it, or empty.
	CordonedBy string
	Created    time.Time
	CPUMilli   int64 // allocatable
	MemoryMi   int64
	Cards      []Card
	// Allocatable is what the API says the node offers to all its pods together,
	// whoever holds it; nil where nobody said, and what the cards have counts. It
	// bounds what can be free without anybody knowing who holds what: this less
	// what the pods bound here ask for.
	Allocatable *demand.Demand
	// Operation under way on this node, nil for none.
	Operation *Operation
	// NoScaleDown: the node says that it must not be removed.
	NoScaleDown bool
}

// Operation is a change under way on a node, as the actuator reports it.
type Operation struct {
	ID       string // stable name; the same in CordonedBy and Memory
	Card     int    // index on the node
	Target   mig.Layout
	Started  time.Time
	Deadline time.Time
	Phase    Phase
	Message  string
}

// Phase of an operation.
type Phase string

// Phases of an operation.
const (
	PhasePending   Phase = "pending"
	PhaseSucceeded Phase = "succeeded"
	PhaseFailed    Phase = "failed"
)

// Card is one physical card as the planner sees it.
type Card struct {
	gpu.Device
	// MIG is true when the card is in MIG mode: only instances are allocatable.
	MIG bool
	// Instances of a MIG card. Placed is false where only counts are known.
	Instances []Instance
	// Holders of a card without MIG (several where it is shared), "namespace/pod".
	Holders []string
	// HoldersKnown is false while attribution is missing or stale: such a card
	// is neither empty nor free to change.
	HoldersKnown bool
	// IdleSince is when the last holder left; zero when held or unknown.
	IdleSince time.Time
	// Busy is the measured share of time the card computes, 0 … 1.
	Busy sample.Value
}

// Instance of a MIG card.
type Instance struct {
	mig.Placement
	Placed    bool
	UUID      string
	Holder    string    // "namespace/pod", empty when free
	IdleSince time.Time // when it was last released; zero when held or unknown
	Busy      sample.Value
}

// Pod wants, or holds, GPUs.
type Pod struct {
	Namespace, Name string
	Owner           string // "Deployment/vllm", for people
	Node            string // bound to, empty while pending
	// Unschedulable is true once the scheduler has said so; a pending pod
	// without it is still the scheduler's to place.
	Unschedulable bool
	Created       time.Time
	PendingSince  time.Time
	Priority      int32
	Demand        demand.Demand
	// Unreadable says why the demand could not be read, empty for a demand that
	// was: such a pod wants something, nobody knows what.
	Unreadable   string
	CPUMilli     int64
	MemoryMi     int64
	NodeSelector map[string]string
	Affinity     []NodeTerm // any term may match; empty matches every node
	Tolerations  []Toleration
	// Evictable is false for a pod that must not be moved (safe-to-evict=false,
	// no controller, a PDB with no room).
	Evictable bool
	// DaemonSet pods and mirror pods do not keep a node from being empty.
	DaemonSet bool
}

// Key is "namespace/name".
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// NodeTerm is one nodeSelectorTerm: all its requirements must hold.
type NodeTerm []NodeRequirement

// NodeRequirement as Kubernetes has it; Operator is In, NotIn, Exists,
// DoesNotExist, Gt or Lt.
type NodeRequirement struct {
	Key, Operator string
	Values        []string
}

// Memory is what the planner must remember from one round to the next. It is
// persisted before anything is done.
type Memory struct {
	// LastScaleUp, LastScaleDown and LastRepartition by pool or node name,
	// sorted by name.
	LastScaleUp     []Stamp
	LastScaleDown   []Stamp
	LastRepartition []Stamp
	// FreeSince is when a node ("n1") or card ("n1/0") was first seen without
	// any holder, where the snapshot does not say since when. Sorted by name.
	//
	// Whoever persists a Memory may leave FreeSince and UnknownSince out. After a
	// restart both begin anew: a node is then given back later by as long as it had
	// been empty, and unknown holders are waited for once more. Neither does harm.
	FreeSince []Stamp
	// UnknownSince is since when a node has had a card whose holders are unknown.
	// Sorted by name.
	UnknownSince []Stamp
}

// Stamp is a time remembered under a name.
type Stamp struct {
	Name string
	At   time.Time
}

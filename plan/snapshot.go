package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Snapshot is everything a plan may depend on. Slices may come in any order;
// Make sorts its own copy. A copy of a Snapshot's slices is a copy of it.
type Snapshot struct {
	Now       time.Time
	Pools     []Pool
	Nodes     []Node
	Pods      []Pod
	Tenants   []Tenant
	Forecasts []Forecast
	// Tables are what nodes have published of their GPUs' MIG geometry; it goes
	// before what is built in.
	Tables mig.Tables
	State  State
}

// Tenant is a team with a quota. Pods name it; a pod that names none, or one
// that is not here, is under no quota.
type Tenant struct {
	quota.Tenant
	// ReclaimIdle is how long what a pod of the tenant holds may be idle before
	// it is taken back: the tenant's own choice, 0 for never.
	ReclaimIdle time.Duration
}

// Forecast is what a workload is expected to need.
type Forecast struct {
	Name string // of the workload, "namespace/name"
	// Like is one more replica: what it asks for and where it may run.
	Like Pod
	// Have is the number of replicas that exist, running or pending.
	Have int
	// Low, Expected and High are replicas needed at At.
	Low, Expected, High float64
	At                  time.Time
	// Error is the back-test's mean error at this horizon, as a share of the
	// series' mean.
	Error float64
	// Unsure says why there is no forecast, empty where there is one.
	Unsure string
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
	// which costs as if it were 1 per GPU.
	PricePerHour float64
	// Spot nodes may be taken away; InterruptionsPerHour is how often that happens
	// to one node.
	Spot                 bool
	InterruptionsPerHour float64
	// ReadyAfter is the time from the request to a schedulable node, as learned.
	ReadyAfter time.Duration
	// BackoffUntil is set while the provider fails to deliver.
	BackoffUntil time.Time
	Freeze       bool
	// Fixed: nobody makes the pool's machines and nobody takes them away. It never
	// grows and gives no node back, whatever Min and Max say.
	Fixed bool
	// MIG says what the planner may do to the GPUs of this pool.
	MIG PoolMIG
	// IdleAfter is how long a node must be empty before it is given back.
	IdleAfter time.Duration
}

// PoolMIG are the repartitioning rules of a pool.
type PoolMIG struct {
	// Repartition allows changing layouts of this pool's GPUs at all.
	Repartition bool
	// KeepsBusy is true where the actuator can leave busy instances in place
	// (our agent), false where a GPU must be empty (mig-manager).
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
	GPUs     []GPU // with the boot layout; UUIDs and holders are empty
	Others   []Resource
}

// Resource is an amount of what is neither CPU, memory nor an accelerator, as
// Kubernetes names it: "rdma/hca", "ephemeral-storage".
type Resource struct {
	Name   string
	Amount int64
}

// Rule ties a pod to others by topology: Group are pods of one namespace that a
// label selector picks, under any name that is the same wherever it is said; Key
// is the node label whose values are the places ("topology.kubernetes.io/zone").
type Rule struct{ Key, Group string }

// Spread keeps pods of a group evenly over places: no place may have more than
// MaxSkew more of them than any other.
type Spread struct {
	Rule
	MaxSkew int
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
	Others     []Resource // allocatable
	GPUs       []GPU
	// Allocatable is what the API says the node offers to all its pods together,
	// whoever holds it; nil where nobody said, and what the GPUs have counts. It
	// bounds what can be free without anybody knowing who holds what: this less
	// what the pods bound here ask for.
	Allocatable *demand.Demand
	// Operation under way on this node, nil for none.
	Operation *Operation
	// NoScaleDown: the node says that it must not be removed.
	NoScaleDown bool
	// Drain under way on this node, nil for none.
	Drain *Draining
	// HoldsData: datasets are cached here. Such nodes are given back last.
	HoldsData bool
	// LeavesAt is when the node's provider takes it away, as it has given notice;
	// zero for no notice. Such a node is cordoned.
	LeavesAt time.Time
	// UID tells the node from another of the same name, for whoever acts on a plan;
	// empty where nobody said. No decision depends on it.
	UID string
}

// Draining is a node being emptied by us: cordoned, its pods asked to leave.
type Draining struct {
	Started  time.Time
	Deadline time.Time
	Reason   Reason // why: NodeUnderused, NodeSick, NodeInterrupted
}

// Operation is a change under way on a node, as the actuator reports it.
type Operation struct {
	ID       string // stable name; the same in CordonedBy and Memory
	GPU      int    // index on the node
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

// GPU is one physical GPU as the planner sees it.
type GPU struct {
	gpu.Device
	// MIG is true when the GPU is in MIG mode: only instances are allocatable.
	MIG bool
	// Instances of a MIG GPU. Placed is false where only counts are known.
	Instances []Instance
	// Holders of a GPU without MIG (several where it is shared), "namespace/pod".
	AllocatedTo []string
	// AllocationKnown is false while attribution is missing or stale: such a GPU
	// is neither empty nor free to change.
	AllocationKnown bool
	// IdleSince is when the last holder left; zero when held or unknown.
	IdleSince time.Time
	// Busy is the measured share of time the GPU computes, 0 … 1.
	Busy sample.Value
	// UnusedSince is since when a held GPU has been measured idle without a
	// break; zero when it is free, in use, or nobody measures it.
	UnusedSince time.Time
}

// Instance of a MIG GPU.
type Instance struct {
	mig.Placement
	Placed      bool
	UUID        string
	AllocatedTo string    // "namespace/pod", empty when free
	IdleSince   time.Time // when it was last released; zero when held or unknown
	Busy        sample.Value
	// UnusedSince is as a GPU's.
	UnusedSince time.Time
}

// Pod wants, or holds, GPUs.
type Pod struct {
	Namespace, Name string
	UID             string // as a Node's
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
	Others       []Resource
	// Groups the pod is counted in, by the rules of any pod.
	Groups []string
	// Spread, Apart and Near are its rules: spread evenly, not where one of the
	// group is, only where one of the group is.
	Spread []Spread
	Apart  []Rule
	Near   []Rule
	// Evictable is false for a pod that must not be moved (safe-to-evict=false,
	// no controller).
	Evictable bool
	// EvictFrom is when the pod may next be moved without losing work (its
	// checkpoint is written then); zero for any time.
	EvictFrom time.Time
	// Budgets are the PodDisruptionBudgets the pod counts towards.
	Budgets []Budget
	// Leaving: the pod was asked to go and still holds what it holds, until about
	// LeavesAt.
	Leaving  bool
	LeavesAt time.Time
	// Tenant whose quota the pod counts towards, empty for none.
	Tenant string
	// Gang, "namespace/name", is the group without GangMin of which, running at the
	// same time, the pod is of no use; empty for none. Where members differ in
	// GangMin, the largest holds.
	Gang    string
	GangMin int
	// Unmade: its owner will create the pod once there is room for it. It is
	// demand like any other.
	Unmade bool
	// DaemonSet pods and mirror pods do not keep a node from being empty.
	DaemonSet bool
}

// Budget is what a PodDisruptionBudget allows now.
type Budget struct {
	Name    string // "namespace/name"
	Allowed int    // pods that may be moved
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
type State struct {
	// LastScaleUp, LastScaleDown and LastRepartition by pool or node name,
	// sorted by name. A node that is replaced makes its pool scale up.
	LastScaleUp     []Stamp
	LastScaleDown   []Stamp
	LastRepartition []Stamp
	// FreeSince is when a node ("n1") or GPU ("n1/0") was first seen without
	// any holder, where the snapshot does not say since when. Sorted by name.
	//
	// Whoever persists a Memory may leave FreeSince and UnknownSince out. After a
	// restart both begin again: a node is then given back later by as long as it had
	// been empty, and unknown holders are waited for once more. Neither does harm.
	FreeSince []Stamp
	// UnknownSince is since when a node has had a GPU whose holders are unknown.
	// Sorted by name.
	UnknownSince []Stamp
	// SickSince is when a node with a sick GPU was first seen so. Sorted by name.
	SickSince []Stamp
	// LastReplace is when a pool last had a node replaced. Sorted by name.
	LastReplace []Stamp
	// LastDrain is when a pool's last drain began or was given up. Sorted by name.
	LastDrain []Stamp
	// Grown are the nodes asked for within the last hour, by pool. Sorted by pool,
	// then time.
	Grown []Growth
	// Removed are the nodes given back within the last ten minutes, by pool. Sorted
	// as Grown is.
	Removed []Growth
	// Failures are GPUs whose repartition has failed, each failure doubling the
	// time until the next try, and nodes whose drain was given up, which are left
	// alone for an hour. Sorted by name.
	Failures []Failure
}

// Growth is nodes asked for, or given back, at one time.
type Growth struct {
	Pool  string
	At    time.Time
	Nodes int
}

// Failure of something that is tried again later and later.
type Failure struct {
	Name  string // "node/gpu", or "node" for a drain
	Count int
	At    time.Time // of the last one
}

// Stamp is a time remembered under a name.
type Stamp struct {
	Name string
	At   time.Time
}

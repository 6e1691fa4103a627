package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Snapshot is everything a plan depends on. Slices may come in any order; Make
// sorts its own copy. Only the GPUs of a node are in order of their index, and the
// instances of a GPU in that of their placements. A copy of a Snapshot's slices is a copy of it.
type Snapshot struct {
	Now       time.Time
	Pools     []Pool
	Nodes     []Node
	Pods      []Pod
	Tenants   []Tenant
	Forecasts []Forecast
	// Tables are the MIG geometries that nodes have published for their GPUs; they
	// take precedence over the built-in ones.
	Tables mig.Tables
	State  State
}

// Tenant is a team with a quota. A pod that names no tenant, or an unknown one,
// is under no quota.
type Tenant struct {
	quota.Tenant
	// ReclaimIdle is how long a pod of the tenant may leave its devices unused
	// before it is evicted; 0 for never.
	ReclaimIdle time.Duration
}

// Forecast is the expected demand of a workload.
type Forecast struct {
	Name string // of the workload, "namespace/name"
	// Like is one more replica: its requests and placement rules.
	Like Pod
	// Have is the number of replicas that exist, running or pending.
	Have int
	// Low, Expected and High are the replicas needed at At.
	Low, Expected, High float64
	At                  time.Time
	// Error is the back-test's mean error at this horizon, as a share of the
	// series' mean.
	Error float64
	// Unsure is why there is no forecast, empty where there is one.
	Unsure string
}

// Pool is a group of nodes that can grow and shrink.
type Pool struct {
	Name     string
	Min, Max int
	// Target is the size last requested from the provider; Size is the number of
	// Node objects, ready or not.
	Target, Size int
	// Failed is how many of the requested nodes the provider reports that it cannot make; FailedWhy is its message.
	Failed    int
	FailedWhy string
	// Template is a new node of this pool.
	Template Template
	// PricePerHour is the price of one node, in the currency of the policy. 0 is
	// unpriced, which costs per GPU what the dearest priced pool does.
	PricePerHour float64
	// Priority comes before the price: nodes are added to the pools of the highest
	// priority that can add one.
	Priority int32
	// Spot nodes may be interrupted; InterruptionsPerHour is the rate for one
	// node.
	Spot                 bool
	InterruptionsPerHour float64
	// ReadyAfter is the observed time from the request to a schedulable node.
	ReadyAfter time.Duration
	// BackoffUntil is set while the provider fails to deliver.
	BackoffUntil time.Time
	Freeze       bool
	// Fixed pools have no provider: they never grow or shrink, whatever Min and
	// Max are.
	Fixed bool
	// MIG is what the planner may do to the GPUs of this pool.
	MIG PoolMIG
	// IdleAfter is how long a node must be empty before it is removed. Where it adapts, that is
	// as long as a new node takes, if this is shorter and the pool has not lately been scaled up
	// soon after a removal.
	IdleAfter  time.Duration
	IdleAdapts bool
}

// PoolMIG are the repartitioning rules of a pool.
type PoolMIG struct {
	// Repartition allows changing layouts of this pool's GPUs at all.
	Repartition bool
	// KeepsBusy is true where the actuator can leave busy instances in place (our
	// agent), false where a GPU must be empty (mig-manager).
	KeepsBusy bool
	// Allowed profiles; empty means all that the product has.
	Allowed []mig.Profile
	// IdleAfter is how long an instance must be idle before it may be destroyed.
	IdleAfter time.Duration
	// Duration is the observed duration of a repartition.
	Duration time.Duration
}

// Template of a node that does not exist yet.
type Template struct {
	Labels   map[string]string
	Taints   []Taint
	CPUMilli int64
	MemoryMi int64
	GPUs     []GPU // in the boot layout, without UUIDs; what DaemonSet pods take on each node is allocated
	Others   []Resource
	// HostPorts are the ports that DaemonSet pods take on a new node; Groups are the groups of these pods.
	HostPorts []HostPort
	Groups    []string
	// Differs is for users: how the pool's nodes differ from what the pool states, "no label tier=gold". Where it is
	// set, this template follows the nodes.
	Differs string
}

// HostPort is a port that a pod takes on its node.
type HostPort struct {
	Protocol string // TCP, UDP or SCTP
	Port     int
	IP       string // empty for all addresses of the node
}

// Resource is an amount of an extended resource that is no accelerator, by its
// Kubernetes name: "rdma/hca", "ephemeral-storage".
type Resource struct {
	Name   string
	Amount int64
}

// Rule ties a pod to others by topology. Group identifies the pods of one
// namespace that a label selector selects: the same string for equal selectors.
// Key is the node label whose values are the places
// ("topology.kubernetes.io/zone").
type Rule struct{ Key, Group string }

// Apart keeps a pod away from places that have pods of Group. Pods that are also in Except
// do not count; each pod of Except is in Group. An empty Except excludes none.
type Apart struct {
	Rule
	Except string
}

// Spread keeps pods of a group evenly over places: no place may have more than
// MaxSkew more of them than any other.
type Spread struct {
	Rule
	MaxSkew int
	// MinDomains is how many places there have to be: where there are fewer, any place
	// is compared with an empty one.
	MinDomains int
	// Only nodes that the pod's selector and affinity admit are places, unless IgnoreAffinity
	// is set. With HonorTaints a node is no place where the pod does not tolerate its taints.
	IgnoreAffinity, HonorTaints bool
}

// Taint is a Kubernetes taint.
type Taint struct{ Key, Value, Effect string }

// Toleration is a Kubernetes toleration.
type Toleration struct{ Key, Operator, Value, Effect string }

// Node is a node that exists in the cluster.
type Node struct {
	Name     string
	Pool     string // empty: of no pool, never changed
	Labels   map[string]string
	Taints   []Taint
	Ready    bool
	Cordoned bool // by any actor
	// CordonedBy is our operation that cordoned it, or empty.
	CordonedBy string
	Created    time.Time
	CPUMilli   int64 // allocatable
	MemoryMi   int64
	Others     []Resource // allocatable
	GPUs       []GPU
	// Allocatable is what the Node object offers to all its pods together. Minus the requests
	// of bound pods it bounds the free capacity, even where it is unknown which GPU is
	// allocated to which pod. Nil is unknown: then the GPUs' layouts count.
	Allocatable *demand.Demand
	// Operation under way on this node, nil for none.
	Operation *Operation
	// NoScaleDown is set where the node must not be removed.
	NoScaleDown bool
	// SoftTainted is set where the node has the taint that SoftTaint adds; Taints leaves it out.
	SoftTainted bool
	// Drain under way on this node, nil for none.
	Drain *Draining
	// HoldsData is set where datasets are cached. Such nodes are removed last.
	HoldsData bool
	// LeavesAt is when the provider interrupts the node, as announced; zero for no
	// announcement. Such a node is cordoned.
	LeavesAt time.Time
	// ReadyAt is when a node of no pool that another controller makes is expected to be ready; zero for any other node.
	// It may have no object yet.
	ReadyAt time.Time
	// UID distinguishes the node from another of the same name when a plan is
	// executed; empty for unknown. No decision depends on it.
	UID string
}

// Draining is a node that we drain: cordoned, its pods evicted.
type Draining struct {
	Started  time.Time
	Deadline time.Time
	Reason   Reason // NodeUnderused, NodeSick, NodeInterrupted or NodeEmpty
}

// Operation is a repartition under way on a node, as the actuator reports it.
type Operation struct {
	ID       string // stable name; the same in CordonedBy and State
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
	// Shared is true when the device plugin gives the GPU in shares only, under a
	// name of their own. Their number is among the node's Others.
	Shared bool
	// ByClaim is true where a DRA driver creates a MIG device when a pod claims it. Instances are
	// the claimed ones; the GPU is in MIG mode while there are any.
	ByClaim bool
	// Places is how many pods may share the GPU, whatever their size; 0 for no limit.
	Places int
	// Instances of a MIG GPU. Placed is false where only counts are known.
	Instances []Instance
	// AllocatedTo are the pods, "namespace/pod", of a GPU without MIG: several
	// where it is shared.
	AllocatedTo []string
	// AllocationKnown is false while attribution is missing or stale: such a GPU
	// is neither empty nor changed.
	AllocationKnown bool
	// IdleSince is when the GPU was last released; zero while allocated and for
	// unknown.
	IdleSince time.Time
	// Busy is the measured share of time the GPU computes, 0 … 1.
	Busy sample.Value
	// UnusedSince is since when an allocated GPU has been measured idle without a
	// break; zero when it is free, in use or not measured.
	UnusedSince time.Time
}

// Instance of a MIG GPU.
type Instance struct {
	mig.Placement
	AllocatedTo string // "namespace/pod", empty when free
	Placed      bool
	IdleSince   time.Time // when it was last released; zero while allocated and for unknown
	// UnusedSince is as a GPU's.
	UnusedSince time.Time
	UUID        string
	Busy        sample.Value
}

// Pod requests GPUs, or has them allocated. What a plan reads of every running pod comes
// first: there are many, and they lie far apart in memory.
type Pod struct {
	Namespace, Name string
	Node            string // bound to, empty while pending
	Demand          demand.Demand
	CPUMilli        int64
	MemoryMi        int64
	Others          []Resource
	// HostPorts are the ports that it takes on its node.
	HostPorts []HostPort
	// Groups are the groups that this pod is in, of those that any pod's rules name.
	Groups []string
	// Spread, Apart and Near are its topology rules: evenly over places, not
	// beside a pod of the group, only beside one.
	Spread []Spread
	Apart  []Apart
	Near   []Rule
	// Budgets are the PodDisruptionBudgets that select the pod.
	Budgets []Budget
	// Tenant is whose quota the pod counts towards, empty for none.
	Tenant string
	// Gang, "namespace/name", is a group that is of no use before GangMin of its
	// pods run at the same time; empty for none. Where members differ in GangMin,
	// the largest holds.
	Gang    string
	GangMin int
	// DaemonSet pods and mirror pods do not keep a node from being empty.
	DaemonSet bool
	// Leaving pods are terminating: their devices stay allocated until about
	// LeavesAt.
	Leaving bool
	// Unschedulable is true once the scheduler has marked the pod; a pending pod
	// without it may still be placed by the scheduler.
	Unschedulable bool
	// Unmade pods do not exist yet: their owner creates them once they fit. They
	// are demand like any other.
	Unmade bool
	// Evictable is false for a pod that must not be moved. Pinned is the reason, for users; empty if it is not known.
	Evictable bool
	Pinned    string
	// LocalStorage is true for a pod with a volume whose content is lost with the
	// pod or its node: an emptyDir on disk, or a hostPath.
	LocalStorage bool
	LeavesAt     time.Time

	UID          string // as a Node's
	Owner        string // "Deployment/vllm", for users
	Created      time.Time
	PendingSince time.Time
	Priority     int32
	// Unreadable is why the demand could not be read, empty for a demand that
	// could: the size of an unreadable demand is unknown.
	Unreadable   string
	NodeSelector map[string]string
	Affinity     []NodeTerm // any term may match; empty matches every node
	Tolerations  []Toleration
	// PartsOn are the indexes of the node's GPUs on which a running pod has its
	// parts, as its scheduler has recorded them; nil for unknown.
	PartsOn []int
	// Data are node labels that mark, with the value "true", nodes that have a
	// dataset of the pod. It is placed there where it can be, and elsewhere otherwise.
	Data []string
	// Volumes are the pod's volumes that only some nodes can use. A node must match one of
	// the terms of each volume.
	Volumes [][]NodeTerm
	// Devices are such terms for the pod's GPUs and DRA devices. A node that Volumes or Devices
	// exclude still counts as a place of the pod's spreads.
	Devices [][]NodeTerm
	// Unbound is why a volume of the pod cannot be used on any node now, empty where each
	// volume can be used on some node.
	Unbound string
	// EvictFrom is when the pod may next be moved without losing work, such as
	// after a checkpoint; zero for any time.
	EvictFrom time.Time
}

// Budget is what a PodDisruptionBudget allows now.
type Budget struct {
	Name    string // "namespace/name"
	Allowed int    // evictions
}

// Key is "namespace/name".
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// NodeTerm is one nodeSelectorTerm: all its requirements must hold.
type NodeTerm []NodeRequirement

// NodeRequirement is Kubernetes' NodeSelectorRequirement; Operator is In,
// NotIn, Exists, DoesNotExist, Gt or Lt.
type NodeRequirement struct {
	Key, Operator string
	Values        []string
}

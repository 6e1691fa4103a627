package plan

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Plan is what to do, why, and the state to persist.
type Plan struct {
	At       time.Time
	Actions  []Action
	Verdicts []Verdict // one for every pod, gang, pool, node, GPU, tenant and forecast, sorted by kind and subject
	State    State     // to persist before acting
	Totals   Totals
}

// Verb is a kind of action. The set is closed.
type Verb string

// Verbs.
const (
	ScaleUp     Verb = "scale-up"
	Repartition Verb = "repartition"
	Uncordon    Verb = "uncordon"
	Rollback    Verb = "rollback" // undo a failed or overdue repartition
	Reclaim     Verb = "reclaim"  // evict a pod that has borrowed, or does not use its devices
	Drain       Verb = "drain"
	RemoveNode  Verb = "remove-node"
	Replace     Verb = "replace"  // remove a sick node and have the pool make another
	Withdraw    Verb = "withdraw" // lower a pool's target to the nodes there are
	// SoftTaint has the scheduler prefer other nodes; RemoveSoftTaint ends that.
	SoftTaint       Verb = "soft-taint"
	RemoveSoftTaint Verb = "remove-soft-taint"
)

// Action is one thing to do. The Verb determines which fields are set.
type Action struct {
	Verb Verb
	Pool string // all but Reclaim on a node of no pool
	Pod  string // Reclaim: "namespace/name"
	// From and To are the pool's target before and after (ScaleUp, Withdraw).
	From, To int
	Node     string     // all but ScaleUp and Withdraw
	GPU      int        // Repartition
	Model    string     // Repartition: the GPU's model, by which profiles are named
	Target   mig.Layout // Repartition: the whole target layout
	Before   mig.Layout // Repartition: the layout this was decided on, a precondition
	Steps    []mig.Step // Repartition: ordered
	// Operation names the repartition, for Uncordon and Rollback; empty for an
	// Uncordon that gives up a drain.
	Operation string
	Deadline  time.Time
	Reason    Reason
	Detail    string   // for users: "chat/vllm-5 requests 3g; 0.02 against 1.34 for a node"
	For       []string // the pods it is done for
	Cost      float64  // expected, in the policy's currency
}

// Kind of a verdict's subject.
type Kind string

// Kinds.
const (
	KindPod      Kind = "pod"
	KindPool     Kind = "pool"
	KindNode     Kind = "node"
	KindGPU      Kind = "gpu"
	KindGang     Kind = "gang"
	KindTenant   Kind = "tenant"
	KindForecast Kind = "forecast"
)

// Verdict is what was decided about one subject, and why.
type Verdict struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"` // "ns/pod", "pool", "node", "node/0", "ns/gang", "tenant", "ns/workload"
	Reason  Reason `json:"reason"`
	Detail  string `json:"detail,omitempty"`
}

// Totals of a plan.
type Totals struct {
	CostPerHour       float64 // of all pools' nodes now
	CostPerHourAfter  float64
	PendingSlices     int // compute slices requested by pending pods, 7 (or 4) a GPU
	PendingSlicesLeft int // of those, served neither by this plan nor by what is upcoming
}

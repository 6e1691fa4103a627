package plan

import (
	"fmt"
	"strings"
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
	// Nominations make the scheduler keep nodes that are not ready yet for the pods that need them.
	Nominations []Nomination
}

// Nomination is a pending pod, "namespace/name", and its upcoming node, which has registered and is not ready yet.
type Nomination struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
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
	Pool string // all; empty for Uncordon and Rollback on a node of no pool
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
	Detail    string   // for users: "chat/vllm-5 requests 3g; the repartition costs 0.02, a node costs 1.34"
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
	PendingSlicesLeft int // the part of PendingSlices that neither this plan nor upcoming capacity serves
}

// String is the plan's canonical text: each action with its reason below, then
// the verdicts, one a line, then the totals. Equal plans give equal bytes.
func (p Plan) String() string {
	var b strings.Builder
	if len(p.Actions) == 0 {
		b.WriteString("nothing to do\n")
	}
	for _, a := range p.Actions {
		b.WriteString(a.String())
		b.WriteByte('\n')
	}
	for _, v := range p.Verdicts {
		b.WriteString(v.String())
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s\n", p.Totals)
	return b.String()
}

// String is the action in one line, with the reason and the pods it is done for
// on indented lines below.
func (a Action) String() string {
	var b strings.Builder
	b.WriteString(a.what())
	fmt.Fprintf(&b, "\n  because %s", a.Reason)
	if a.Detail != "" {
		b.WriteString(": " + a.Detail)
	}
	if len(a.For) > 0 {
		b.WriteString("\n  for " + strings.Join(a.For, " "))
	}
	return b.String()
}

func (a Action) what() string {
	switch a.Verb {
	case ScaleUp:
		return fmt.Sprintf("scale-up %s %d -> %d", a.Pool, a.From, a.To)
	case Withdraw:
		return fmt.Sprintf("withdraw %s %d -> %d", a.Pool, a.From, a.To)
	case Repartition:
		return fmt.Sprintf("repartition %s/%d  %s  to  %s", a.Node, a.GPU,
			LayoutText(a.Model, a.Before), LayoutText(a.Model, a.Target))
	case RemoveNode, Replace:
		return fmt.Sprintf("%s %s from %s", a.Verb, a.Node, a.Pool)
	case Reclaim:
		return fmt.Sprintf("reclaim %s on %s", a.Pod, a.Node)
	case Uncordon, Rollback:
		if a.Operation == "" { // the end of a drain
			break
		}
		return fmt.Sprintf("%s %s operation %s", a.Verb, a.Node, a.Operation)
	}
	return fmt.Sprintf("%s %s", a.Verb, a.Node)
}

// String is the verdict in one line.
func (v Verdict) String() string {
	s := fmt.Sprintf("%s %s %s", v.Kind, v.Subject, v.Reason)
	if v.Detail != "" {
		s += ": " + v.Detail
	}
	return s
}

// String is the totals in one line.
func (t Totals) String() string {
	return fmt.Sprintf("totals: %.2f an hour, %.2f after; %d slices pending, %d left",
		t.CostPerHour, t.CostPerHourAfter, t.PendingSlices, t.PendingSlicesLeft)
}

// LayoutText names a layout's instances as the model does, in runs of equal
// profiles: "1g.10gb@0,1,2 3g.40gb@4"; "(empty)" for no instance.
func LayoutText(model string, l mig.Layout) string {
	if len(l) == 0 {
		return "(empty)"
	}
	var b strings.Builder
	for i, p := range l {
		if i > 0 && l[i-1].Profile == p.Profile {
			fmt.Fprintf(&b, ",%d", p.Start)
			continue
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s@%d", ProfileText(model, p.Profile), p.Start)
	}
	return b.String()
}

// ProfileText is a profile's name on the model, or its slices ("3g:4") where
// the model has no table.
func ProfileText(model string, p mig.Profile) string {
	if t, ok := mig.ForModel(model); ok {
		return t.Name(p)
	}
	return p.String()
}

// names joins many small strings in few allocations: a plan has two hundred
// thousand verdicts.
type names struct{ chunk strings.Builder }

// chunkSize is the size of a large string.
const chunkSize = 64 << 10

// join concatenates strings.
func (n *names) join(parts ...string) string {
	need := 0
	for _, part := range parts {
		need += len(part)
	}
	if n.chunk.Cap()-n.chunk.Len() < need {
		n.chunk = strings.Builder{}
		n.chunk.Grow(max(chunkSize, need))
	}
	start := n.chunk.Len()
	for _, part := range parts {
		n.chunk.WriteString(part)
	}
	return n.chunk.String()[start:]
}

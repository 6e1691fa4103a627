package main

import (
	"io"
	"reflect"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
)

// planVersion is the version of a plan's JSON. Fields may be added; removing one or
// changing its meaning needs another version. planHelp documents the fields.
const planVersion = "plan.gpuscale.io/v1"

// planDocument is a plan.Plan in JSON. Times are RFC 3339, in UTC as in a snapshot. Money is in the currency of the
// pools' prices. NaN and infinite numbers are null, empty lists [].
type planDocument struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	At         time.Time        `json:"at"`
	Actions    []actionDocument `json:"actions"`
	Verdicts   []plan.Verdict   `json:"verdicts"`
	// Nominations are absent where there is none.
	Nominations []plan.Nomination `json:"nominations,omitempty"`
	Totals      totalsDocument    `json:"totals"`
	State       plan.State        `json:"state"`
}

// actionDocument has the fields of its verb only.
type actionDocument struct {
	Verb      string          `json:"verb"`
	Pool      string          `json:"pool,omitempty"`
	Node      string          `json:"node,omitempty"`
	Pod       string          `json:"pod,omitempty"`
	FromNodes *int            `json:"fromNodes,omitempty"`
	ToNodes   *int            `json:"toNodes,omitempty"`
	GPU       *int            `json:"gpu,omitempty"`
	Model     string          `json:"model,omitempty"`
	Before    *layoutDocument `json:"before,omitempty"`
	Target    *layoutDocument `json:"target,omitempty"`
	Steps     []stepDocument  `json:"steps,omitempty"`
	Operation string          `json:"operation,omitempty"`
	Deadline  time.Time       `json:"deadline,omitzero"`
	Reason    string          `json:"reason"`
	Detail    string          `json:"detail,omitempty"`
	For       []string        `json:"for"`
	Cost      *float64        `json:"expectedCost"`
}

type layoutDocument struct {
	Text       string              `json:"text"` // such as 3g.40gb@0,4
	Placements []placementDocument `json:"placements"`
}

type placementDocument struct {
	Profile       string `json:"profile"`
	Start         int    `json:"startMemorySlice"`
	MemorySlices  int    `json:"memorySlices"`
	ComputeSlices int    `json:"computeSlices"`
}

type stepDocument struct {
	Do        string            `json:"do"` // create or destroy
	Placement placementDocument `json:"placement"`
}

type totalsDocument struct {
	CostPerHour       *float64 `json:"costPerHour"`
	CostPerHourAfter  *float64 `json:"costPerHourAfter"`
	PendingSlices     int      `json:"pendingComputeSlices"`
	PendingSlicesLeft int      `json:"pendingComputeSlicesLeft"`
}

// writePlanJSON writes p as one indented document. Equal plans give equal bytes.
func writePlanJSON(w io.Writer, p plan.Plan) error {
	return text.JSON(w, documentOf(p))
}

func documentOf(p plan.Plan) planDocument {
	state := reflect.ValueOf(&p.State).Elem()
	for i := range state.NumField() {
		if list := state.Field(i); list.IsNil() {
			list.Set(reflect.MakeSlice(list.Type(), 0, 0))
		}
	}
	return planDocument{
		APIVersion: planVersion, Kind: "Plan", At: p.At.UTC(), Actions: each(p.Actions, actionOf), Verdicts: append([]plan.Verdict{}, p.Verdicts...),
		Nominations: p.Nominations,
		Totals: totalsDocument{
			CostPerHour: explain.Number(p.Totals.CostPerHour), CostPerHourAfter: explain.Number(p.Totals.CostPerHourAfter),
			PendingSlices: p.Totals.PendingSlices, PendingSlicesLeft: p.Totals.PendingSlicesLeft,
		},
		State: p.State,
	}
}

func actionOf(a plan.Action) actionDocument {
	out := actionDocument{
		Verb: string(a.Verb), Pool: a.Pool, Node: a.Node, Pod: a.Pod, Model: a.Model, Operation: a.Operation,
		Reason: string(a.Reason), Detail: a.Detail, For: each(a.For, func(s string) string { return s }), Cost: explain.Number(a.Cost),
		Deadline: a.Deadline.UTC(),
	}
	switch a.Verb {
	case plan.ScaleUp:
		out.FromNodes, out.ToNodes = &a.From, &a.To
	case plan.Repartition:
		out.GPU = &a.GPU
		out.Before, out.Target = layoutOf(a.Model, a.Before), layoutOf(a.Model, a.Target)
		out.Steps = each(a.Steps, func(s mig.Step) stepDocument { return stepOf(a.Model, s) })
	}
	return out
}

func layoutOf(model string, l mig.Layout) *layoutDocument {
	return &layoutDocument{
		Text:       plan.LayoutText(model, l),
		Placements: each(l, func(p mig.Placement) placementDocument { return placementOf(model, p) }),
	}
}

func placementOf(model string, p mig.Placement) placementDocument {
	return placementDocument{
		Profile: plan.ProfileText(model, p.Profile), Start: p.Start,
		MemorySlices: p.Profile.Memory, ComputeSlices: p.Profile.Compute,
	}
}

func stepOf(model string, s mig.Step) stepDocument {
	return stepDocument{map[bool]string{true: "create", false: "destroy"}[s.Create], placementOf(model, s.Placement)}
}

// each converts a list. The result is never nil: in JSON an empty list is [], not null.
func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}

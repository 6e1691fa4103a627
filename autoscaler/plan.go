package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// outputs are the output formats of a plan.
var outputs = map[string]func(io.Writer, plan.Plan) error{
	"json": writePlanJSON,
	"text": func(w io.Writer, p plan.Plan) error {
		_, err := fmt.Fprint(w, p)
		return err
	},
}

// newPlanCommand prints the plan for a snapshot in scenario text, as
// /debug/snapshot gives it. It needs no cluster.
func newPlanCommand(out io.Writer) *cobra.Command {
	var file, form string
	cmd := &cobra.Command{
		Use:   "plan -f FILE [-o text|json]",
		Short: "Print the plan for a snapshot in a file, - for standard input",
		Long:  planHelp,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := outputs[form]
			switch {
			case file == "":
				return usage{errors.New("--file is required: the name of a snapshot, or - for standard input")}
			case !ok:
				return usage{fmt.Errorf("--output %q: want text or json", form)}
			}
			text, err := read(cmd.InOrStdin(), file)
			if err != nil {
				return fmt.Errorf("reading the snapshot: %w", err)
			}
			script, plays := scenario.Script(text)
			if plays {
				return play(out, file, script, form)
			}
			snapshot, policy, err := readSnapshot(file, script)
			if err != nil {
				return err
			}
			return write(out, plan.Make(snapshot, policy))
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "scenario file, as /debug/snapshot gives it; - for standard input")
	cmd.Flags().StringVarP(&form, "output", "o", "text", "text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{
		"text\tto read", "json\tfor programs, " + planVersion,
	}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// play runs a scenario with plan or settle lines and prints its output.
func play(out io.Writer, file, script, form string) error {
	if form != "text" {
		return usage{fmt.Errorf("--output %s: %s has plan lines of its own; their plans are printed as text only", form, named(file))}
	}
	answers, err := scenario.Run(script)
	if _, writeErr := io.WriteString(out, answers); writeErr != nil {
		return writeErr
	}
	if err != nil {
		return located(named(file), script, err)
	}
	return nil
}

func named(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// readSnapshot parses a snapshot. Each problem of an invalid one names the file and the
// line.
func readSnapshot(file, text string) (plan.Snapshot, plan.Policy, error) {
	file = named(file)
	if strings.TrimSpace(text) == "" {
		// The output of a failed command is not an empty cluster.
		return plan.Snapshot{}, plan.Policy{}, badSnapshot{fmt.Errorf("%s: is empty; want a snapshot, as from /debug/snapshot", file)}
	}
	snapshot, policy, err := scenario.Parse(text)
	if err == nil {
		err = errors.Join(snapshot.Check(), policyProblems(policy))
	}
	if err != nil {
		return plan.Snapshot{}, plan.Policy{}, located(file, text, err)
	}
	return snapshot, policy, nil
}

// policyProblems are the problems of a policy, each with its path.
func policyProblems(p plan.Policy) error {
	err := p.Check()
	if err == nil {
		return nil
	}
	var out []error
	for _, problem := range single(err) {
		out = append(out, fmt.Errorf("policy.%s", problem))
	}
	return errors.Join(out...)
}

func read(in io.Reader, file string) (string, error) {
	if file == "-" {
		return readText(in)
	}
	opened, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }() // it was only read
	text, err := readText(opened)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

// maxProblems bounds the problems printed of one file.
const maxProblems = 10

// located prefixes each problem with the file, and with the line if that is missing.
func located(file, text string, err error) error {
	var out []error
	problems := single(err)
	for i, problem := range problems {
		if i == maxProblems {
			out = append(out, fmt.Errorf("%s: and %d more problems", file, len(problems)-i))
			break
		}
		if line := lineOf(text, problem); line > 0 {
			problem = fmt.Sprintf("line %d: %s", line, problem)
		}
		out = append(out, fmt.Errorf("%s: %s", file, problem))
	}
	return badSnapshot{errors.Join(out...)}
}

// single splits joined problems; a prefix of all is repeated before each.
func single(err error) []string {
	var joined interface {
		error
		Unwrap() []error
	}
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	before := strings.TrimSuffix(err.Error(), joined.Error())
	var out []string
	for _, e := range joined.Unwrap() {
		for _, problem := range single(e) {
			out = append(out, before+problem)
		}
	}
	return out
}

// verbs declare the subjects of problems, by the beginning of their path.
var verbs = map[string]string{"pools": "pool", "nodes": "node", "pods": "pod", "forecasts": "forecast"}

// lineOf finds the last line about the subject of a problem such as "pools[p].min: …"; 0
// for none.
func lineOf(text, problem string) int {
	switch {
	case strings.HasPrefix(problem, "policy."):
		return scenario.LineOf(text, "policy", "")
	case strings.HasPrefix(problem, "state."), strings.HasPrefix(problem, "now:"):
		return scenario.LineOf(text, "tick", "")
	case strings.HasPrefix(problem, "tenants"):
		_, rest, _ := strings.Cut(problem, "tenant \"")
		name, _, quoted := strings.Cut(rest, "\"")
		if !quoted { // "tenants[t].reclaimIdle: …"
			_, rest, _ = strings.Cut(problem, "[")
			if name, _, quoted = strings.Cut(rest, "]"); !quoted {
				return 0
			}
		}
		return scenario.LineOf(text, "quota", name)
	}
	kind, rest, ok := strings.Cut(problem, "[")
	name, field, closed := strings.Cut(rest, "]")
	verb := verbs[kind]
	if !ok || !closed || verb == "" {
		return 0
	}
	if index, ok := strings.CutPrefix(field, ".gpus["); ok && kind == "nodes" {
		index, _, _ = strings.Cut(index, "]")
		if line := scenario.LineOf(text, "gpu", name+"/"+index); line > 0 {
			return line
		}
	}
	return scenario.LineOf(text, verb, name)
}

const planHelp = `Print the plan for a snapshot: the autoscaler's actions, and the reasons.

The file is scenario text, as from /debug/snapshot of a running autoscaler, its
policy included; it may be compressed with gzip. The same file always gives the
same plan: no cluster is needed and nothing is done. A scenario with plan or settle
lines of its own is played in a simulated cluster, and its output is printed; the
output recorded in the file (after a line "----") is ignored.

Exit codes:
  0  the plan was printed
  1  the file cannot be read, or the plan cannot be written
  2  the command line is wrong
  3  the file is not a valid snapshot; each problem is one line that names the
     file and the line

-o text is one line for each action, with its reason and the pods it is done for
below it, one for each verdict, and the totals.

-o json is one document. Fields may be added to it; what is there stays, or
apiVersion changes. Times are RFC 3339 in UTC, money is in the currency of the
pools' prices, an infinite number is null, empty lists are [].

  apiVersion, kind          ` + planVersion + `, Plan
  at                        the time that was planned for
  actions[]                 what to do, in order
    verb                    scale-up, repartition, rollback, uncordon, reclaim,
                            drain, remove-node or replace
    pool, node, pod         the object of the action, depending on the verb
    fromNodes, toNodes      scale-up: the pool's target before and after
    gpu                     repartition: the GPU's index on the node
    model                   repartition: the GPU's model
    before, target          repartition: the GPU's layout before and after
      text                  such as 3g.40gb@0,4
      placements[]          the same: profile, startMemorySlice, memorySlices
                            and computeSlices of each instance
    steps[]                 repartition: do (create or destroy) and placement
    operation               the name of a repartition, or of a cordon of ours
    deadline                when the action times out
    reason, detail          why: a reason of docs/reasons.md, and its details
    for[]                   the pods it is done for, namespace/name
    expectedCost            of the action
  verdicts[]                kind, subject, reason and detail, one for each pod,
                            gang, pool, node, GPU, tenant and forecast
  totals                    costPerHour and costPerHourAfter of all pools;
                            pendingComputeSlices requested by pending pods, and
                            pendingComputeSlicesLeft after this plan
  state                     the planner's state: lastScaleUp, lastScaleDown,
                            lastRepartition, freeSince, unknownSince, sickSince,
                            lastReplace and lastDrain, each a list of name and
                            at; grown[] and removed[] with pool, at and nodes;
                            failures[] with name, count and at
`

// planVersion is the version of a plan's JSON. Fields may be added; removing one or
// changing its meaning needs another version. planHelp documents the fields.
const planVersion = "plan.gpuscale.io/v1"

// planDocument is a plan.Plan in JSON. Times are RFC 3339, in UTC as those of a snapshot
// are, money is in the currency of the pools' prices, NaN and infinite numbers are null, empty lists [].
type planDocument struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	At         time.Time        `json:"at"`
	Actions    []actionDocument `json:"actions"`
	Verdicts   []plan.Verdict   `json:"verdicts"`
	Totals     totalsDocument   `json:"totals"`
	State      plan.State       `json:"state"`
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
	Deadline  *time.Time      `json:"deadline,omitempty"`
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
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // details have < and > in them
	return e.Encode(documentOf(p))
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
		Totals: totalsDocument{
			CostPerHour: number(p.Totals.CostPerHour), CostPerHourAfter: number(p.Totals.CostPerHourAfter),
			PendingSlices: p.Totals.PendingSlices, PendingSlicesLeft: p.Totals.PendingSlicesLeft,
		},
		State: p.State,
	}
}

func actionOf(a plan.Action) actionDocument {
	out := actionDocument{
		Verb: string(a.Verb), Pool: a.Pool, Node: a.Node, Pod: a.Pod, Model: a.Model, Operation: a.Operation,
		Reason: string(a.Reason), Detail: a.Detail, For: each(a.For, func(s string) string { return s }), Cost: number(a.Cost),
	}
	if !a.Deadline.IsZero() {
		at := a.Deadline.UTC()
		out.Deadline = &at
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
	do := "destroy"
	if s.Create {
		do = "create"
	}
	return stepDocument{do, placementOf(model, s.Placement)}
}

// number is v, nil if that is NaN or infinite, which JSON lacks.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// each converts a list. The result is never nil: in JSON an empty list is [], not null.
func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}

package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/strict"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// outputs are the output formats of a plan.
var outputs = map[string]func(io.Writer, plan.Plan) error{
	"json": writePlanJSON,
	"text": func(w io.Writer, p plan.Plan) error {
		_, err := io.WriteString(w, text.Lines(p.String()))
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
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := outputs[form]
			switch {
			case file == "":
				return command.Usage(errors.New("--file is required: the name of a snapshot, or - for standard input"))
			case !ok:
				return command.Usage(fmt.Errorf("--output %q: want text or json", form))
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
		return command.Usage(fmt.Errorf("--output %s: %s has plan lines of its own; their plans are printed as text only", form, named(file)))
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
		var p problems
		p.under("policy", policy.Check())
		err = errors.Join(append(p, snapshot.Check())...)
	}
	if err != nil {
		return plan.Snapshot{}, plan.Policy{}, located(file, text, err)
	}
	return snapshot, policy, nil
}

// read reads a text of at most maxSnapshot from a file, or from standard input.
func read(in io.Reader, file string) (text string, err error) {
	err = withFile(in, file, func(r io.Reader) error {
		all, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
		switch text = string(all); {
		case err != nil:
			return fmt.Errorf("%s: %w", named(file), err)
		case len(all) > maxSnapshot:
			return fmt.Errorf("%s: more than %d MiB: not a snapshot", named(file), maxSnapshot>>20)
		}
		return nil
	})
	return text, err
}

// maxProblems bounds the problems printed of one file.
const maxProblems = 10

// located prefixes each problem with the file, and with the line if that is missing.
func located(file, text string, err error) error {
	var out []error
	problems := strict.Single(err)
	for i, problem := range problems {
		if i == maxProblems {
			out = append(out, fmt.Errorf("%s: and %d more problems", file, len(problems)-i))
			break
		}
		where := file
		if line := lineOf(text, problem); line > 0 {
			where = fmt.Sprintf("%s:%d", file, line)
		} else if known, ok := strings.CutPrefix(problem, "line "); ok {
			where, problem, _ = strings.Cut(file+":"+known, ": ")
		}
		out = append(out, fmt.Errorf("%s: %s", where, problem))
	}
	return badSnapshot{errors.Join(out...)}
}

// subjects are the verbs that declare the subjects of problems, by the beginning of their path.
var subjects = map[string]string{
	"pools": "pool", "nodes": "node", "pods": "pod", "forecasts": "forecast", "tenants": "quota", "policy": "policy", "state": "tick", "now": "tick",
}

// about finds the path of a problem: its beginning, and the subject's name, such as of "pools[p].min: …" or
// "tenants: tenant \"t\": …".
var about = regexp.MustCompile(`^(\w+)(?:\[([^\]]*)\](?:\.gpus\[(\w+)\])?|: tenant "([^"]*)"|[.:])`)

// lineOf finds the last line about the subject of a problem; 0 for none.
func lineOf(text, problem string) int {
	m := about.FindStringSubmatch(problem)
	if m == nil || subjects[m[1]] == "" {
		return 0
	}
	if m[3] != "" {
		if line := scenario.LineOf(text, "gpu", m[2]+"/"+m[3]); line > 0 {
			return line
		}
	}
	return scenario.LineOf(text, subjects[m[1]], m[2]+m[4])
}

const planHelp = `Print the plan for a snapshot: the autoscaler's actions, and the reasons.

The file is scenario text, as from /debug/snapshot of a running autoscaler, its
policy included; it may be compressed with gzip. The same file always gives the
same plan: no cluster is needed and nothing is done. A scenario with plan or
settle lines of its own is played in a simulated cluster, and its output is
printed; the output recorded in the file (after a line "----") is ignored.

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
  nominations[]             pod, and the node coming up that is kept for it
  totals                    costPerHour and costPerHourAfter of all pools;
                            pendingComputeSlices requested by pending pods, and
                            pendingComputeSlicesLeft after this plan
  state                     the planner's state: lastScaleUp, lastScaleDown,
                            lastRepartition, freeSince, unknownSince, shortSince,
                            sickSince, lastReplace, lastDrain and lastRegret, each
                            a list of name and at; grown[] and removed[] with pool,
                            at and nodes; failures[] with name, count and at
`

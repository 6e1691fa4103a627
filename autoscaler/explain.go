package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// explainForms are the output formats of an explanation.
var explainForms = map[string]func(d explain.Document, w io.Writer) error{
	"text": explain.Document.WriteText,
	"json": explain.Document.WriteJSON,
}

// explainer is a subcommand of explain.
type explainer struct {
	use, short string
	ask        func(plan.Snapshot, plan.Policy, string) (explain.Document, error)
}

var explainers = []explainer{
	{"pod NAMESPACE/NAME", "Why a pod is pending, the options for it, and changes that would serve it", explain.ForPod},
	{"gang NAMESPACE/NAME", "The same for a gang, with the reason of each member", explain.ForGang},
	{"pool NAME", "Why a pool has its size, and the states of its nodes", explain.ForPool},
}

// newExplainCommand explains the last snapshot of a running autoscaler, or one in
// a file.
func newExplainCommand(out io.Writer) *cobra.Command {
	var from snapshotSource
	var form string
	cmd := &cobra.Command{
		Use:   "explain pod|gang|pool NAME [-f FILE | --url URL] [-o text|json]",
		Short: "Explain why a pod is pending, and what would serve it",
		Long:  explainHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage(errors.New("a subject is required: pod NAMESPACE/NAME, gang NAMESPACE/NAME or pool NAME"))
			}
			return command.Usage(fmt.Errorf("%q cannot be explained: want pod, gang or pool", args[0]))
		},
	}
	for _, e := range explainers {
		cmd.AddCommand(&cobra.Command{
			Use: e.use, Short: e.short, Long: explainHelp,
			RunE: func(cmd *cobra.Command, args []string) error {
				write, ok := explainForms[form]
				switch {
				case len(args) != 1:
					return command.Usage(fmt.Errorf("want one name: explain %s", e.use))
				case strings.Count(args[0], "/") != strings.Count(e.use, "/") || slices.Contains(strings.Split(args[0], "/"), ""):
					return command.Usage(fmt.Errorf("%s: want %s: explain %s", args[0], strings.Fields(e.use)[1], e.use))
				case !ok:
					return command.Usage(fmt.Errorf("--output %q: want text or json", form))
				}
				return explained(cmd.Context(), out, from, cmd.InOrStdin(), e, args[0], write)
			},
		})
	}
	fs := cmd.PersistentFlags()
	fs.StringVarP(&from.file, "file", "f", "", "explain a snapshot in a file, as /debug/snapshot gives it; - for standard input")
	fs.StringVar(&from.url, "url", "", "ask an autoscaler at this address, such as http://localhost:9402 behind kubectl port-forward")
	fs.StringVar(&from.tokenFile, "token-file", "", "file with the token of the autoscaler's debug.tokenFile")
	fs.StringVar(&from.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account or the user's own")
	fs.StringVarP(&from.namespace, "namespace", "n", "gpuscale-system", "namespace of the autoscaler's lease and pods")
	fs.StringVar(&from.lease, "lease", "gpuscale-autoscaler", "lease of the autoscaler, which names the replica to ask")
	fs.IntVar(&from.port, "port", 9402, "port of the autoscaler's pods")
	fs.StringVarP(&form, "output", "o", "text", "text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text\tto read", "json\tfor programs, " + explain.Version}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// requestTimeout bounds the requests to the cluster and the autoscaler.
const requestTimeout = 30 * time.Second

func explained(ctx context.Context, out io.Writer, from snapshotSource, in io.Reader, e explainer, name string, write func(explain.Document, io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text, err := from.text(ctx, in)
	if err != nil {
		return err
	}
	where := cmp.Or(from.file, "the autoscaler's snapshot")
	script, plays := scenario.Script(text)
	if plays {
		return command.Usage(fmt.Errorf("%s has plan or settle lines: explain takes a snapshot; \"gpuscale-autoscaler plan -f\" plays it", named(where)))
	}
	snapshot, policy, err := readSnapshot(where, script)
	if err != nil {
		return err
	}
	d, err := e.ask(snapshot, policy, name)
	if err != nil {
		return from.refine(ctx, err, name)
	}
	return write(d, out)
}

const explainHelp = `Explain why a pod is pending: the options for it, what each costs, why it was
not chosen, and changes that would serve the pod. Every proposed change was
verified by planning the same snapshot with it.

Without -f and --url the leading replica is found by its lease and queried
through the API server's proxy. That needs the right to get leases and
pods/proxy in its namespace, and the token of its debug.tokenFile
(--token-file). Without a token, forward a port to its pod:

  kubectl -n gpuscale-system port-forward deploy/gpuscale-autoscaler 9402 &
  gpuscale-autoscaler explain pod NAMESPACE/NAME --url http://localhost:9402

With several replicas, forward to the leader: the others have no snapshot.
Nothing is written; the planning is done locally.

Exit codes:
  0  success
  1  the snapshot is not available: no file, no autoscaler, no right
  2  the command line is wrong
  3  the file is not a valid snapshot
  4  the subject is not in the snapshot, or not pending
`

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	source
	kubeconfig, context string
	namespace, form     string
	only                []string
	list                bool
	stdout              io.Writer
}

// lookTimeout is the timeout for all checks together.
const lookTimeout = time.Minute

// doctorForms are the output formats.
var doctorForms = []string{"text", "json"}

const doctorHelp = `Check this installation of gpuscale. For each problem doctor prints what it
saw, what that means, and commands that fix it. doctor only reads, with your
own permissions. What you may not read is unknown, never ok. docs/doctor.md
lists all checks.

  gpuscale-report doctor --prometheus-url http://localhost:9090
  gpuscale-report doctor --only apiservice-missing,leader -o json

Exit codes:
  0  no problem was found
  1  doctor failed, or gpuscale is not installed
  2  the command line is wrong
  3  there are warnings or unknown checks, but no fault
  4  there are faults
`

func newDoctorCommand(out io.Writer) *cobra.Command {
	o := doctorOptions{stdout: out}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find what is wrong with this installation, and how to fix it", Long: doctorHelp, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	timeout := fs.Lookup("timeout")
	timeout.DefValue, timeout.Usage = lookTimeout.String(), "timeout of all checks together"
	o.Timeout = lookTimeout
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; $KUBECONFIG, ~/.kube/config or the pod's ServiceAccount if empty")
	fs.StringVar(&o.context, "context", "", "context in the kubeconfig; its current context if empty")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "namespace of gpuscale; found if empty. Other objects are read in all namespaces")
	fs.StringSliceVar(&o.only, "only", nil, "run only the checks with these ids, separated by commas")
	fs.BoolVar(&o.list, "list", false, "list the checks and what each reads; run none")
	fs.StringVarP(&o.form, "output", "o", "text", "text or json")
	complete(cmd, "output", doctorForms...)
	var ids []string
	for _, c := range doctor.All() {
		ids = append(ids, c.ID)
	}
	complete(cmd, "only", ids...)
	return cmd
}

func (o doctorOptions) run(ctx context.Context) error {
	if !slices.Contains(doctorForms, o.form) {
		return command.Usage(fmt.Errorf("--output %q: want one of %s", o.form, strings.Join(doctorForms, ", ")))
	}
	if o.Timeout <= 0 {
		return command.Usage(fmt.Errorf("--timeout %s: want more than 0s", o.Timeout))
	}
	checks, err := doctor.Select(doctor.All(), o.only)
	if err != nil {
		return command.Usage(fmt.Errorf("--only %w", err))
	}
	if o.list {
		return o.catalogue(checks)
	}
	g, err := o.gathering(ctx, checks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	facts, err := doctor.Gather(ctx, g)
	switch {
	case apierrors.IsUnauthorized(err):
		return err
	case err != nil:
		return fmt.Errorf("%w\ncheck that --kubeconfig and --context name the right cluster, and that it is reachable from here", err)
	}
	return o.write(doctor.Examine(facts, checks))
}

// gathering returns the options for gathering facts, from the flags.
func (o doctorOptions) gathering(ctx context.Context, checks []doctor.Check) (doctor.Options, error) {
	g := doctor.Options{Match: o.match, Namespace: o.namespace, Sources: doctor.Sources(checks), Advise: advise}
	o.Timeout /= 4 // of one request, so that a server without an answer leaves time for the others
	var err error
	if g.Kube, err = kube.Config(kube.Options{Kubeconfig: o.kubeconfig, Context: o.context, UserAgent: "gpuscale-report-doctor/" + buildinfo.Version()}); err != nil {
		return g, err
	}
	g.Timeout = o.Timeout
	if o.kubeconfig != "" {
		g.Kubectl = append(g.Kubectl, "--kubeconfig", o.kubeconfig)
	}
	if o.context != "" {
		g.Kubectl = append(g.Kubectl, "--context", o.context)
	}
	if !o.Given() {
		g.NoPrometheus = "--prometheus-url is not set: for example http://localhost:9090 behind kubectl -n monitoring port-forward svc/prometheus-operated 9090"
		return g, nil
	}
	g.Prometheus, err = o.client(ctx)
	return g, err
}

// catalogue lists checks.
func (o doctorOptions) catalogue(checks []doctor.Check) error {
	if o.form == "json" {
		return command.Usage(errors.New("--list has no JSON form: omit --output json"))
	}
	w := tabwriter.NewWriter(o.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tEXPECTED\tREADS")
	for _, c := range checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.ID, c.Title, strings.Join(doctor.Names(c.Reads()), ", "))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (o doctorOptions) write(r doctor.Report) error {
	var err error
	if o.form == "json" {
		err = text.JSON(o.stdout, r)
	} else {
		err = doctor.Write(o.stdout, r, painted(o.stdout) && os.Getenv("NO_COLOR") == "")
	}
	switch {
	case err != nil:
		return err
	case r.Nothing != "":
		return errors.New("gpuscale is not installed")
	case r.Faults > 0:
		return coded{errors.New(doctor.Summary(r)), exitFaulty}
	case r.Warnings+r.Unknown > 0:
		return incomplete(errors.New(doctor.Summary(r)))
	}
	return nil
}

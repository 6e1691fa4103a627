package main

import (
	"cmp"
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

const doctorHelp = `Check an installation of gpuscale and report problems: what was found, its
effect, and a fix to paste. It only reads, with your own rights; what you may
not read is unknown, never healthy. docs/doctor.md has all checks.

  gpuscale-report doctor --prometheus-url http://localhost:9090
  gpuscale-report doctor --only apiservice-missing,leader -o json

Exit codes:
  0  no problem
  1  it failed, or gpuscale is not installed
  2  the command line is wrong
  3  warnings or unknown checks, and no fault
  4  faults
`

func newDoctorCommand(out io.Writer) *cobra.Command {
	o := doctorOptions{stdout: out}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find problems of this installation, and fixes", Long: doctorHelp, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	timeout := fs.Lookup("timeout")
	timeout.DefValue, timeout.Usage = lookTimeout.String(), "time-out of all checks together"
	o.config.Timeout = lookTimeout
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; else $KUBECONFIG, the usual file, or the pod's own account")
	fs.StringVar(&o.context, "context", "", "context of the kubeconfig")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "namespace of gpuscale; detected if empty. All else is read of the whole cluster")
	fs.StringSliceVar(&o.only, "only", nil, "checks to run, by their ids, with commas")
	fs.BoolVar(&o.list, "list", false, "list the checks and what each reads, without running them")
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
	if o.config.Timeout <= 0 {
		return command.Usage(fmt.Errorf("--timeout %s: want more than 0s", o.config.Timeout))
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
	ctx, cancel := context.WithTimeout(ctx, o.config.Timeout)
	defer cancel()
	facts, err := doctor.Gather(ctx, g)
	switch {
	case apierrors.IsUnauthorized(err):
		return err
	case err != nil:
		return fmt.Errorf("%w\nis the cluster right (--kubeconfig, --context), and reachable from here?", err)
	}
	return o.write(doctor.Examine(facts, checks))
}

// gathering returns the options for gathering facts, from the flags.
func (o doctorOptions) gathering(ctx context.Context, checks []doctor.Check) (doctor.Options, error) {
	g := doctor.Options{Match: o.match, Namespace: o.namespace, Sources: doctor.Sources(checks), Advise: advise}
	var err error
	if g.Kube, err = kube.Config(kube.Options{Kubeconfig: o.kubeconfig, Context: o.context, UserAgent: "gpuscale-report-doctor/" + buildinfo.Version()}); err != nil {
		return g, err
	}
	if o.kubeconfig != "" {
		g.Kubectl = append(g.Kubectl, "--kubeconfig", o.kubeconfig)
	}
	if o.context != "" {
		g.Kubectl = append(g.Kubectl, "--context", o.context)
	}
	if cmp.Or(o.config.URL, o.file, os.Getenv("PROMETHEUS_URL")) == "" {
		g.NoPrometheus = "no --prometheus-url was given: for instance http://localhost:9090 behind kubectl -n monitoring port-forward svc/prometheus-operated 9090"
		return g, nil
	}
	g.Prometheus, err = o.client(ctx)
	return g, err
}

// catalogue lists checks.
func (o doctorOptions) catalogue(checks []doctor.Check) error {
	if o.form == "json" {
		return command.Usage(errors.New("--list has no JSON form: leave out --output json"))
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
		err = doctor.WriteJSON(o.stdout, r)
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

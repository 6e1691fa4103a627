package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/top"
)

// topOptions are the flags of top.
type topOptions struct {
	source
	namespace, form string
	all, watch      bool
	every           time.Duration
	out, errs       io.Writer
}

const topHelp = `List which pods each GPU and MIG slice is allocated to now, how busy it is, and
how long it has been idle.

  gpuscale-report top --prometheus-url http://localhost:9090
  gpuscale-report top -n chat --watch

Exit codes:
  0  the list is complete
  1  it failed: a query, or Prometheus has no series of a GPU
  2  the command line is wrong
  3  the allocation or use of some GPUs is unknown
`

func newTopCommand(out, errs io.Writer) *cobra.Command {
	o := topOptions{out: out, errs: errs}
	cmd := &cobra.Command{
		Use: "top", Short: "List which pods have each GPU and slice now, and how busy it is", Args: command.NoArgs,
		Long: topHelp,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	o.addTrusted(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "", "list only what is allocated to this namespace")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "list all namespaces, and free GPUs (the default)")
	fs.StringVarP(&o.form, "output", "o", "table", "table, wide, json or yaml")
	fs.BoolVarP(&o.watch, "watch", "w", false, "repeat at the interval --every, until interrupted")
	fs.DurationVar(&o.every, "every", 5*time.Second, "interval of --watch")
	complete(cmd, "output", top.Forms...)
	return cmd
}

func (o topOptions) run(ctx context.Context) error {
	switch {
	case !slices.Contains(top.Forms, o.form):
		return command.Usage(fmt.Errorf("--output %q: want one of %s", o.form, strings.Join(top.Forms, ", ")))
	case o.all && o.namespace != "":
		return command.Usage(errors.New("--namespace and --all-namespaces exclude each other"))
	case o.every < time.Second:
		return command.Usage(fmt.Errorf("--every %s: want at least 1s", o.every))
	}
	client, err := o.client(ctx)
	if err != nil {
		return err
	}
	if !o.watch {
		return o.once(ctx, client, false)
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	return o.again(ctx, client, tick.C)
}

// again repeats the table until it is interrupted, which is not an error. It goes on after unknown values, an
// unreachable Prometheus and a missing exporter. A rejected credential ends it.
func (o topOptions) again(ctx context.Context, client query.Prometheus, tick <-chan time.Time) error {
	for {
		err := o.once(ctx, client, true)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, exitCode(err) == exitIncomplete:
		case errors.Is(err, prom.ErrUnavailable), errors.Is(err, top.ErrNoGPUs):
			if _, err := fmt.Fprintln(o.errs, err); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// once queries and writes the table one time.
func (o topOptions) once(ctx context.Context, client query.Prometheus, again bool) error {
	var now time.Time // the server's: this machine's clock may be wrong
	d := query.Dialect{Match: o.match, Trusted: o.trusted}
	moved, err := client.Query(ctx, "count("+d.Select(metric.GPUHeld.Name, metric.Exported+metric.LabelNamespace+`!=""`)+")", now)
	if err != nil {
		return advise(err)
	}
	clusters, err := client.Query(ctx, "count by (cluster) ("+d.Select(metric.GPUInfo.Name, `cluster!=""`)+")", now)
	if err == nil {
		err = query.OneCluster(clusters)
	}
	if err != nil {
		return advise(err)
	}
	d.ExporterMoved = len(moved) > 0
	rows, complete, err := top.Read(ctx, client, d, now, o.namespace)
	if err != nil {
		return advise(err)
	}
	var b bytes.Buffer
	switch {
	case !again, o.form == "json":
	case o.form == "yaml":
		b.WriteString("---\n") // each table is a YAML document
	case painted(o.out):
		b.WriteString("\x1b[H\x1b[2J" + time.Now().Format(time.DateTime) + "\n")
	default:
		b.WriteString(time.Now().Format(time.RFC3339) + "\n")
	}
	if err := top.Write(&b, rows, o.namespace, o.form); err != nil {
		return err
	}
	if _, err := o.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if !complete {
		return incomplete(errors.New("the allocation or use of some GPUs is unknown"))
	}
	return nil
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// painted reports whether the output is a terminal that supports escape sequences.
func painted(w io.Writer) bool { return terminal(w) && os.Getenv("TERM") != "dumb" }

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
	out             io.Writer
}

func newTopCommand(out io.Writer) *cobra.Command {
	o := topOptions{out: out}
	cmd := &cobra.Command{
		Use: "top", Short: "Who holds which card and slice now, and whether they use it", Args: noArgs,
		Long: "Who holds which card and slice now, busy or idle and for how long, by namespace.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "", "only what this namespace holds")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "all namespaces, and what nobody holds (the default)")
	fs.StringVarP(&o.form, "output", "o", "table", "table, wide, json or yaml")
	fs.BoolVarP(&o.watch, "watch", "w", false, "again every --every, until interrupted")
	fs.DurationVar(&o.every, "every", 5*time.Second, "how often to look with --watch")
	complete(cmd, "output", top.Forms...)
	return cmd
}

func (o topOptions) run(ctx context.Context) error {
	switch {
	case !slices.Contains(top.Forms, o.form):
		return usage{fmt.Errorf("--output %q: want one of %s", o.form, strings.Join(top.Forms, ", "))}
	case o.all && o.namespace != "":
		return usage{errors.New("--namespace and --all-namespaces exclude each other")}
	case o.every < time.Second:
		return usage{fmt.Errorf("--every %s: want at least 1s", o.every)}
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	if !o.watch {
		return o.once(ctx, client, false)
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		// A watch goes on over what is unknown, and over a Prometheus that is away.
		if err := o.once(ctx, client, true); err != nil && exitCode(err) != exitIncomplete && !errors.Is(err, prom.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// once asks and writes. Everything is asked about the same moment.
func (o topOptions) once(ctx context.Context, client query.Prometheus, again bool) error {
	now := time.Now()
	d := query.Dialect{Match: o.match}
	moved, err := client.Query(ctx, "count("+d.Select(metric.GPUHeld.Name, metric.Exported+metric.LabelNamespace+`!=""`)+")", now)
	if err != nil {
		return o.say(again, advise(err))
	}
	d.ExporterMoved = len(moved) > 0
	var answers []prom.Vector
	for _, q := range top.Questions(d) {
		v, err := client.Query(ctx, q, now)
		if err != nil {
			return o.say(again, advise(err))
		}
		answers = append(answers, v)
	}
	if len(answers[0]) == 0 {
		return o.say(again, fmt.Errorf("there is no %s: is gpuscale-exporter scraped (a ServiceMonitor or scrape job over its port 9400)? Look at up and at /targets of Prometheus", metric.GPUInfo.Name))
	}
	rows, complete := top.Rows(answers, d, top.Options{Namespace: o.namespace})
	var b bytes.Buffer
	if again && o.form != "json" && o.form != "yaml" && terminal(o.out) {
		b.WriteString("\x1b[H\x1b[2J" + now.Format(time.DateTime) + "\n")
	}
	if err := top.Write(&b, rows, o.form, terminal(o.out) && os.Getenv("NO_COLOR") == ""); err != nil {
		return err
	}
	if _, err := o.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if !complete {
		return incomplete{errors.New("of some cards nobody knows who holds them, or how busy they are")}
	}
	return nil
}

// say shows what is wrong where nobody will see it at the end.
func (o topOptions) say(again bool, err error) error {
	if again && err != nil {
		_, _ = fmt.Fprintln(o.out, err)
	}
	return err
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

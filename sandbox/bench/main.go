// Command bench measures the CPU time and the memory of the gpuscale-autoscaler program on
// a real control plane: idle with full nodes, and during a burst of pods. KWOK fakes the
// nodes, sandbox/neighbours Cluster API's controllers, and type exporters Prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/internal/procstat"
)

type options struct {
	nodes, pods int
	idle        time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&o.nodes, "nodes", 1000, "full nodes of 8 GPUs")
	f.IntVar(&o.pods, "pods", 500, "pods of the burst; they request 1, 2 … 8, 1, 2 … GPUs")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long the idle program is measured")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.nodes > 10_000 || o.pods < 1 || o.pods > 20_000 || o.idle < time.Second {
		return o, errors.New("-nodes is 1 to 10000, -pods 1 to 20000, -idle 1s or more")
	}
	return o, nil
}

func run(ctx context.Context, o options, out io.Writer) error {
	discard := slog.New(slog.DiscardHandler)
	klog.SetSlogLogger(discard)
	ctrllog.SetLogger(logr.FromSlogHandler(discard.Handler()))
	before := procstat.Load()
	l, stop, err := newLab(ctx, o)
	defer stop()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scene\tCPU\tresident\tof which program file\tnodes added\tall pods run after")
	pid := l.subject.PID()
	cpu, from := procstat.CPU(pid), time.Now()
	if err := pause(ctx, o.idle); err != nil {
		return err
	}
	used, m := procstat.CPU(pid)-cpu, procstat.Memory(pid)
	fmt.Fprintf(t, "idle, %d nodes\t%.4f core\t%s\t%s\t\t\n", o.nodes, used.Seconds()/time.Since(from).Seconds(), mib(m.Now), mib(m.File))

	procstat.ForgetPeak(pid)
	cpu, from = procstat.CPU(pid), time.Now()
	added, err := l.burst(ctx)
	if err != nil {
		return err
	}
	used, m = procstat.CPU(pid)-cpu, procstat.Memory(pid)
	fmt.Fprintf(t, "%d pods\t%.2f s\tpeak %s\t%s\t%d, at least %d\t%.1f s\n", o.pods, used.Seconds(), mib(m.Peak), mib(m.File), added, bound(o.pods), time.Since(from).Seconds())
	fmt.Fprintf(t, "\nload average %s before, %s after\n", before, procstat.Load())
	return t.Flush()
}

func mib(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Command bench measures gpuscale-autoscaler as a built program on a real control
// plane: how long pods wait for the provider to be asked, how much is bought for
// them, and what that costs in processor time, memory and requests. The nodes are
// KWOK's; Cluster API's controllers and Prometheus are doubles in this process:
// see the types machines and exporters.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/gpuscale/gpuscale/internal/procstat"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	nodes   int
	pods    []int
	pools   int
	surplus int
	idle    time.Duration
	output  string
	binary  string
	keep    string
	boot    time.Duration
	// profiles is a folder, empty for none.
	profiles string
	readers  bool // whether there is a Prometheus
	// scheduler is pack or spread.
	scheduler string
}

const about = `bench measures gpuscale-autoscaler on a real control plane with KWOK nodes.

-nodes nodes of 8 cards are there and full. Then for each of -pods so many pods come at once, asking for 1, 2 … 8, 1, 2 …
cards; -pools pools of a double of Cluster API could grow for them. "pending" is when a watch shows the pod's condition
PodScheduled=False; "call" is when a watch shows the first write of a MachineDeployment's replicas after which all pools
together have cards for that pod and for all that were pending before it. The bound is all cards asked for, by eight.
After that: the largest burst's pods leave -surplus nodes; a gang of eight; MIG.

Processor time and memory are the kernel's (/proc), requests the API server's audit log's, loops the program's own
histogram's, read often enough that most readings have one round in them; a reading with more counts as one loop.
Everything shares the machine: processor time and counts are what to compare, times only on a quiet one.

It ends with status 1 if a goal is missed.`

func parse(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprintln(out, about)
		f.PrintDefaults()
	}
	quick := f.Bool("quick", false, "as a smoke test: 100 nodes, 20 and 100 pods, 20 surplus nodes, 10 s idle")
	f.IntVar(&o.nodes, "nodes", 1000, "nodes that are there and full")
	pods := f.String("pods", "20,200,500,2000", "numbers of pods, one burst each, ascending")
	f.IntVar(&o.pools, "pools", 4, "pools that could grow for them, alike but for their price")
	f.IntVar(&o.surplus, "surplus", 110, "nodes of the last burst that are given back; 0 leaves that out")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long the idle program is watched; 0s leaves that out")
	f.DurationVar(&o.boot, "boot", 0, "how long a node takes to boot; 0s is the hardest for packing, since the scheduler binds what came first before more is known")
	f.BoolVar(&o.readers, "prometheus", true, "answer for the exporters of all nodes; without them nothing is cut or given back")
	f.StringVar(&o.scheduler, "scheduler", "pack", "how kube-scheduler scores nodes: pack (MostAllocated by cards) or spread (its default)")
	f.StringVar(&o.output, "o", "table", "table or json")
	f.StringVar(&o.binary, "binary", "", "gpuscale-autoscaler to measure; built from this tree where not given")
	f.StringVar(&o.profiles, "profile", "", "folder for processor profiles of the bursts, ten seconds each: go tool pprof DIR/burst2000-*")
	f.StringVar(&o.keep, "keep", "", "folder for the program's log and the audit log, which otherwise go with the run")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.nodes, *pods, o.surplus, o.idle = 100, "20,100", 20, 10*time.Second
	}
	for text := range strings.SplitSeq(*pods, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 20_000 || len(o.pods) > 0 && n < o.pods[len(o.pods)-1] {
			return o, fmt.Errorf("-pods %q: ascending numbers from 1 to 20000, with commas between", *pods)
		}
		o.pods = append(o.pods, n)
	}
	switch {
	case o.nodes < 1 || o.nodes > 10_000:
		return o, fmt.Errorf("-nodes %d: 1 to 10000", o.nodes)
	case o.pools < 1 || o.pools > 100:
		return o, fmt.Errorf("-pools %d: 1 to 100", o.pools)
	case o.surplus < 0 || o.idle < 0 || o.boot < 0:
		return o, fmt.Errorf("-surplus, -idle and -boot must not be negative")
	case o.scheduler != "pack" && o.scheduler != "spread":
		return o, fmt.Errorf("-scheduler %q: pack or spread", o.scheduler)
	case o.profiles != "" && os.MkdirAll(o.profiles, 0o755) != nil:
		return o, fmt.Errorf("-profile %q: no folder can be made there", o.profiles)
	case o.output != "table" && o.output != "json":
		return o, fmt.Errorf("-o %q: table or json", o.output)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	silent := slog.New(slog.DiscardHandler)
	klog.SetSlogLogger(silent)
	ctrllog.SetLogger(logr.FromSlogHandler(silent.Handler()))
	p := newProgress(os.Stderr)
	before := procstat.Load()
	l, stop, err := newLab(ctx, o, p)
	defer stop()
	if err != nil {
		return err
	}
	r := report{Nodes: o.nodes, Prometheus: o.readers, Scheduler: o.scheduler, LoadBefore: before}
	err = l.play(ctx, &r)
	r.LoadAfter = procstat.Load()
	err = errors.Join(err, r.print(os.Stdout, o.output))
	if missed := r.missed(); err == nil && len(missed) > 0 {
		return errors.New("goals missed:\n  " + strings.Join(missed, "\n  "))
	}
	return err
}

// play runs the scenes one after the other. What was measured before one that fails
// is in the report all the same.
func (l *lab) play(ctx context.Context, r *report) error {
	scenes := []struct {
		name string
		play func(context.Context, *report) error
	}{{"idle", l.idle}}
	for _, n := range l.o.pods {
		scenes = append(scenes, struct {
			name string
			play func(context.Context, *report) error
		}{fmt.Sprintf("%d pods", n), func(ctx context.Context, r *report) error { return l.burst(ctx, r, n) }})
	}
	scenes = append(scenes, []struct {
		name string
		play func(context.Context, *report) error
	}{{"surplus", l.giveBack}, {"gang", l.gang}, {"MIG", l.mig}}...)
	for _, s := range scenes {
		l.progress.say("%s", s.name)
		if err := s.play(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, l.why(err))
		}
	}
	return nil
}

// Command bench measures the cost of answering HPAs: gpuscale-adapter and
// prometheus-adapter v0.12.0 in one run, as built programs, with the HPA
// controller's own clients. Prometheus and the API server are fakes, so that
// tens of thousands of pods fit one machine: see the types fakePrometheus and
// apiServer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/gpuscale/gpuscale/internal/procstat"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse()
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	hpas             []int
	pods, namespaces int
	signals          int
	warm, duration   time.Duration
	timeout, maxAge  time.Duration
	peer, ours       bool
	binary           string
}

func parse() (o options, err error) {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), about)
		flag.PrintDefaults()
	}
	hpas := flag.String("hpas", "1,100,1000,5000", "numbers of HPAs, one row each, ascending")
	flag.IntVar(&o.pods, "pods", 20_000, "pods in the cluster, ten to a workload")
	flag.IntVar(&o.namespaces, "namespaces", 200, "namespaces they are spread over")
	flag.IntVar(&o.signals, "signals", 5, "series each pod has, each read by one rule")
	flag.DurationVar(&o.warm, "warm", period, "how long HPAs send requests before counting")
	flag.DurationVar(&o.duration, "duration", 2*period, "how long each row is measured")
	flag.DurationVar(&o.timeout, "prometheus-timeout", 5*time.Second, "gpuscale-adapter's prometheus.timeout; the default is the program's")
	flag.DurationVar(&o.maxAge, "max-age", 45*time.Second, "gpuscale-adapter's maxAge; the default is the program's")
	flag.BoolVar(&o.peer, "peer", true, "measure prometheus-adapter too")
	flag.BoolVar(&o.ours, "ours", true, "measure gpuscale-adapter")
	flag.StringVar(&o.binary, "binary", "", "gpuscale-adapter to measure; built from this tree where not given")
	flag.Parse()
	for text := range strings.SplitSeq(*hpas, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 100_000 {
			return o, fmt.Errorf("-hpas %q: numbers from 1 to 100000, with commas between", *hpas)
		}
		o.hpas = append(o.hpas, n)
	}
	if o.duration < period || o.warm < 0 {
		return o, fmt.Errorf("-duration must be at least the HPA's period, %s, and -warm not negative", period)
	}
	return o, nil
}

const about = `bench measures what answering HPAs costs, with gpuscale-adapter and prometheus-adapter v0.12.0.

Each HPA asks every 15 s, at a moment of its own and whether or not others have been answered, for one Pods metric of
ten pods and then one External metric, through the k8s.io/metrics clients, with the aggregator's certificate. The
answers are checked for their number of items. Prometheus (its own engine over made-up series, 15 s apart) and the API
server (metadata, LISTs, SubjectAccessReviews; it grants everything) are fakes in this process, which therefore
competes with the adapter for the processors ("bench's" is what it took of them); the answers to our rules' queries are
printed with new times rather than evaluated again. "inside" is the adapter's own histogram, the other times are the
client's, and "late" is how far behind its schedule the generator itself was. The adapter is asked directly; through a
real aggregator each answer takes 1 to 2 ms more. prometheus-adapter runs with --client-qps=1000 instead of 5.

It ends with status 1 if gpuscale-adapter misses a goal: 99 % of requests within 5 ms inside, as many queries for many
HPAs as for few, no LIST on the request path, 250 MiB resident, no errors.`

func run(ctx context.Context, o options) error {
	debug.SetGCPercent(400)                           // rarely: the adapter shares the processors
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the clients' chatter
	f, err := newFleet(o.pods, o.namespaces, o.signals)
	if err != nil {
		return err
	}
	l, stop, err := newLab(f)
	if err != nil {
		return err
	}
	defer stop()
	programs, err := programsFor(ctx, o, l)
	if err != nil {
		return err
	}
	fmt.Printf("%d series: %d pods in %d namespaces with %d series each; %d processors, %s; load average at the start %s\n\n",
		f.series(), f.pods, f.namespaces, len(f.signals), runtime.NumCPU(), runtime.Version(), procstat.Load())
	var all, own []row
	for _, p := range programs {
		rows, err := l.subject(ctx, p, o)
		all = append(all, rows...)
		if p.title == oursTitle {
			own = rows
		}
		if err != nil {
			return errors.Join(print(os.Stdout, all), err)
		}
	}
	if err := print(os.Stdout, all); err != nil {
		return err
	}
	if wrong := missed(own); len(wrong) > 0 {
		return errors.New("goals missed:\n  " + strings.Join(wrong, "\n  "))
	}
	return nil
}

func newLab(f fleet) (*lab, func(), error) {
	dir, err := os.MkdirTemp("", "gpuscale-bench-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	l := &lab{dir: dir, fleet: f}
	if l.certs, err = newCertificates(); err != nil {
		return nil, remove, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if l.api, err = startAPIServer(f, l.certs, log); err != nil {
		return nil, remove, err
	}
	if l.prometheus, err = startPrometheus(f); err != nil {
		return nil, remove, err
	}
	return l, func() { l.prometheus.stop(); l.api.stop(); remove() }, nil
}

func programsFor(ctx context.Context, o options, l *lab) ([]program, error) {
	var all []program
	if o.ours {
		if o.binary == "" {
			o.binary = filepath.Join(l.dir, "gpuscale-adapter")
			compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", o.binary, "github.com/gpuscale/gpuscale/adapter")
			compile.Stderr = os.Stderr
			if err := compile.Run(); err != nil {
				return nil, fmt.Errorf("building the adapter: %w", err)
			}
		}
		all = append(all, ours(o.binary, l.prometheus.URL, o.timeout, o.maxAge))
	}
	if o.peer {
		path, err := build.PrometheusAdapter(ctx, build.Options{})
		if err != nil {
			return nil, fmt.Errorf("building prometheus-adapter (-peer=false does without): %w", err)
		}
		all = append(all, peer(path, l.prometheus.URL, l.fleet))
	}
	return all, nil
}

// subject runs one program through all its rows.
func (l *lab) subject(ctx context.Context, p program, o options) (rows []row, err error) {
	s, err := l.start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, n := range o.hpas {
		fmt.Fprintf(os.Stderr, "%s, %d HPAs: %s\n", p.title, n, o.warm+o.duration)
		r, err := l.measure(ctx, s, n, o.warm, o.duration)
		if err != nil {
			return rows, fmt.Errorf("%s, %d HPAs: %w", p.title, n, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

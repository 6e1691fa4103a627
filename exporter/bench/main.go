// Command bench measures the exporter as a user runs it: the built binary on
// the fake of DCGM, scraped over HTTP. It prints a table beside what
// dcgm-exporter takes for the same, or with -soak what grows over time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.StringVar(&o.binary, "binary", "", "exporter to measure; built from this tree where not given")
	flag.IntVar(&o.scrapes, "scrapes", 200, "scrapes a row")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long the idle exporter is watched")
	flag.DurationVar(&o.soak, "soak", 0, "run that long at ten times the speed and print what grows, instead of the table")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	binary  string
	scrapes int
	idle    time.Duration
	soak    time.Duration
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "gpuscale-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	library, err := fakedcgm.Build(ctx, dir)
	if err != nil {
		return err
	}
	if o.binary == "" {
		o.binary = filepath.Join(dir, "gpuscale-exporter")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", o.binary, "./exporter")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building the exporter (run this in the repository's root): %w\n%s", err, out)
		}
	}
	l := lab{binary: o.binary, library: library, dir: dir}
	if o.soak > 0 {
		return l.soak(ctx, o.soak)
	}
	return l.table(ctx, o)
}

// row is a setup, what dcgm-exporter 4.5.2-4.8.1 takes for it, and what we want
// to take at most. Its figures are on NVIDIA's own host engine without a GPU,
// with the default counters and profiling, on two cores as well.
type row struct {
	name             string
	setup            setup
	p50, p99, cpu    string
	goalP50, goalCPU time.Duration
}

var rows = []row{
	{"remote, 8 GPUs", setup{remote: true, gpus: 8}, "3.6 ms", "7.5-10 ms", "2.8 ms", 350 * time.Microsecond, time.Millisecond},
	{"remote, 8 x 7 MIG", setup{remote: true, gpus: 8, instances: 7}, "23.6 ms", "40 ms", "18.3 ms", time.Millisecond, time.Millisecond},
	{"embedded, 8 GPUs", setup{gpus: 8}, "1.4-2.0 ms", "3-13 ms", "1.7-3.5 ms", 350 * time.Microsecond, time.Millisecond},
	{"embedded, 8 x 7 MIG", setup{gpus: 8, instances: 7}, "9.9-12 ms", "16-43 ms", "11-12.6 ms", time.Millisecond, time.Millisecond},
	{"remote, 8 x 7, gzip", setup{remote: true, gpus: 8, instances: 7, gzip: true}, "", "", "", 0, 0},
	{"remote, 8 x 7, protobuf", setup{remote: true, gpus: 8, instances: 7, accept: protobuf}, "", "", "", 0, 0},
}

const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

func (l *lab) table(ctx context.Context, o options) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "setup\tseries\tbytes\tp50\tgoal\tp99\tCPU/scrape\tgoal\tRSS\tidle CPU\tdcgm-exporter: p50\tp99\tCPU/scrape")
	var failed error
	for _, r := range rows {
		m, err := l.measure(ctx, r.setup, o)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.0f MB\t%.2f %%\t%s\t%s\t%s\n", r.name, m.series, m.bytes,
			ms(m.p50), atMost(r.goalP50), ms(m.p99), ms(m.cpu), atMost(r.goalCPU), float64(m.rss)/1e6, 100*m.idle, r.p50, r.p99, r.cpu)
		if r.goalP50 > 0 && (m.p50 > r.goalP50 || m.cpu > r.goalCPU) {
			failed = errors.Join(failed, fmt.Errorf("%s is over its goal", r.name))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return failed
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func atMost(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "<= " + ms(d)
}

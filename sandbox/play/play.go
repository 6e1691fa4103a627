package play

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/watch"
	"github.com/gpuscale/gpuscale/sandbox/world"
)

// lookEvery is the interval at which the world is measured and drawn.
const lookEvery = 500 * time.Millisecond

// startTimeout bounds the start of a world whose programs are already built.
const startTimeout = 2 * time.Minute

// Result is the outcome of a story.
type Result struct {
	Summary view.Summary
	Report  Report // empty if none was requested or it could not be written
}

// Run plays a story until all expectations are met (nil), one fails, a program dies, or ctx ends. It leaves
// no process and no file behind. With Keep it then waits for ctx, also after a failure (see Failed), so that
// users can look. At the end it writes the capacity report of the story. If that fails, the reason is
// printed; it becomes the error of a story that otherwise succeeded.
func Run(ctx context.Context, o Options) (Result, error) {
	traffic, speed, err := o.traffic()
	if err != nil {
		return Result{}, err
	}
	o.View.Say("%s", header(o, traffic.Name, speed))
	startCtx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	begin := time.Now()
	w, err := world.Start(startCtx, world.Options{
		Story: o.Story, Binaries: o.Binaries, Trace: traffic, Speed: speed, Log: o.Log, RealNode: o.RealNode,
	})
	if err != nil {
		return Result{}, err
	}
	defer w.Stop()
	o.View.Say("world up after %s", time.Since(begin).Round(100*time.Millisecond))
	if o.RealNode {
		o.View.Say("node real runs containers: pod default/hello (kubectl logs hello, with --keep)")
	}
	if err := w.Play(); err != nil {
		return Result{}, err
	}
	played := time.Now()
	life, end := context.WithCancel(ctx)
	defer end()
	watcher, err := watch.New(life, o.Story, w, len(traffic.Requests), o.Log)
	if err != nil {
		return Result{}, err
	}
	p := player{o: o, world: w, watcher: watcher, progress: story.NewProgress(o.Story)}
	err = p.follow(life)
	if died := w.Cluster.Err(); err != nil && died != nil {
		err = died // the real cause
	}
	result := Result{Summary: watcher.Summary()}
	result.Summary.Took = p.met
	if ctx.Err() != nil {
		return result, err
	}
	over := time.Now()
	alerts, problem := alertsSince(ctx, w.Cluster.PrometheusURL(), played, over)
	if problem != nil {
		o.Log.Warn("querying alerts failed", "error", problem)
	}
	result.Summary.Alerts = alerts
	o.View.Summarize(result.Summary)
	var unwritten error
	if o.Out != "" {
		r := reporting{program: o.Binaries.Program("gpuscale-report"), prometheus: w.Cluster.PrometheusURL(), dir: o.Out}
		result.Report, unwritten = r.write(ctx, played, over)
		o.View.Say("%s", result.Report.text(unwritten))
	}
	switch {
	case o.Keep:
		return result, o.keep(ctx, w, err)
	case err != nil:
		return result, fmt.Errorf("%w\n  the logs are removed with the sandbox: run it with --keep to read them", err)
	case unwritten != nil:
		return result, fmt.Errorf("the story succeeded, but its report could not be written: %w", unwritten)
	}
	o.View.Say("keep it   make demo ARGS=--keep leaves everything running, and serves the boards")
	return result, nil
}

type player struct {
	o        Options
	world    *world.World
	watcher  *watch.Watcher
	progress *story.Progress
	met      []view.Stage
}

// follow follows the story until it is over.
func (p *player) follow(ctx context.Context) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		p.watcher.Look(ctx)
		at := p.watcher.At()
		for _, d := range p.watcher.Decisions() {
			p.o.View.Decide(d)
		}
		for _, e := range p.progress.Observe(at, p.watcher.Read) {
			p.met = append(p.met, view.Stage{Name: e.String(), At: at})
			p.o.View.Decide(view.Decision{At: at, What: "story", Subject: e.String()})
		}
		p.o.View.Show(p.watcher.Figures())
		if err := p.progress.Err(); err != nil {
			return p.failed(err)
		}
		if p.progress.Done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.world.Cluster.Failed():
			return p.world.Cluster.Err()
		case <-t.C:
		}
	}
}

// failed adds the expectations that were met to the error about one that was not.
func (p *player) failed(err error) error {
	names := make([]string, len(p.met))
	for i, s := range p.met {
		names[i] = fmt.Sprintf("%s (%s)", s.Name, s.At.Round(time.Second))
	}
	if len(names) == 0 {
		names = []string{"nothing"}
	}
	return fmt.Errorf("the story failed: %w; met before: %s", err, strings.Join(names, ", "))
}

func header(o Options, traffic string, speed float64) string {
	s := o.Story
	gpus := 0
	for _, n := range s.Nodes {
		for _, p := range s.Pools {
			if p.Name == n.Pool {
				gpus += p.GPUs
			}
		}
	}
	plays := "no traffic"
	if s.Traffic != nil {
		plays = fmt.Sprintf("trace %s ×%g (req/s and latencies in the trace's time)", traffic, speed)
	}
	fleet := fmt.Sprintf("%d simulated GPU nodes with %d GPUs in %d pools", len(s.Nodes), gpus, len(s.Pools))
	return fmt.Sprintf("gpuscale · %s · %s · %s · Ctrl-C leaves nothing behind", s.Title, fleet, plays)
}

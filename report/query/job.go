package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// job is a query about a piece of the window, and its answer.
type job struct {
	ask      int // of Answers.Asked
	kind     Kind
	promql   string
	from, to time.Time
	step     time.Duration
	lines    []prom.Line
	vector   prom.Vector
	problems []Problem
}

func (a *Answers) jobs() []*job {
	w := a.Window
	var sources []Source
	for s, there := range map[Source]bool{FromExporter: a.Exporter, FromAutoscaler: a.Autoscaler, FromServers: a.Servers} {
		if there {
			sources = append(sources, s)
		}
	}
	var jobs []*job
	for i, ask := range a.Dialect.Asks(w, sources...) {
		step := map[Kind]time.Duration{Fine: w.Step, Ledger: w.Ledger, Coarse: w.Coarse}[ask.Kind]
		shown := ask
		shown.PromQL = pieced(ask.PromQL, min(piece, w.Length()))
		a.Asked = append(a.Asked, Asked{Ask: shown, Step: step})
		if ask.Kind == Now {
			jobs = append(jobs, &job{ask: i, kind: Now, promql: ask.PromQL, from: w.Until, to: w.Until})
			continue
		}
		// The first piece has From itself: counters are compared with it.
		for from := w.From; from.Before(w.Until); {
			to := from.Add(max(piece, step))
			if to.After(w.Until) {
				to = w.Until
			}
			begin := from
			if ask.Kind != PerPiece && from != w.From {
				begin = from.Add(step)
			}
			jobs = append(jobs, &job{ask: i, kind: ask.Kind, promql: ask.PromQL, from: begin, to: to, step: step})
			from = to
		}
	}
	return jobs
}

func do(ctx context.Context, p *patient, jobs []*job, o Options) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Concurrency)
	var mu sync.Mutex
	names := map[string]prom.Labels{}
	done := 0
	for _, j := range jobs {
		g.Go(func() error {
			if err := j.run(ctx, p); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			share(names, j.lines)
			if done++; o.Progress != nil {
				o.Progress(done, len(jobs))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("asking Prometheus: %w", err)
	}
	return nil
}

// share makes lines of equal labels share one copy: every piece of a query repeats the
// labels of the piece before, and a month has thirty pieces.
func share(names map[string]prom.Labels, lines []prom.Line) {
	for i, l := range lines {
		name := key(l.Labels)
		if _, known := names[name]; !known {
			names[name] = l.Labels
		}
		lines[i].Labels = names[name]
	}
}

func (j *job) run(ctx context.Context, p *patient) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.hopeless(j.ask):
		j.problems = append(j.problems, Problem{From: j.from, To: j.to, Err: "not sent, since other pieces of the query had no answer"})
		return nil
	}
	if j.kind == Now {
		v, err := p.Query(ctx, j.promql, j.to)
		j.vector = v
		return j.note(ctx, p, j.from, j.to, err)
	}
	if j.kind == PerPiece {
		v, err := p.Query(ctx, pieced(j.promql, j.to.Sub(j.from)), j.to)
		for _, s := range v {
			j.lines = append(j.lines, prom.Line{Labels: s.Labels, Points: []prom.Point{{Time: j.to, Value: s.Value}}})
		}
		return j.note(ctx, p, j.from, j.to, err)
	}
	return j.span(ctx, p, j.from, j.to)
}

// pieced puts a piece's length into a query.
func pieced(promql string, length time.Duration) string {
	return strings.ReplaceAll(promql, "[PIECE]", "["+seconds(length)+"]")
}

// span queries a part of the piece, and its halves where the answer exceeds the server's
// limits or ours.
func (j *job) span(ctx context.Context, p *patient, from, to time.Time) error {
	lines, err := p.Range(ctx, j.promql, from, to, j.step)
	if half := (to.Sub(from) / 2).Truncate(j.step); tooMuch(err) && half >= shortest {
		if err := j.span(ctx, p, from, from.Add(half)); err != nil {
			return err
		}
		return j.span(ctx, p, from.Add(half).Add(j.step), to)
	}
	j.lines = append(j.lines, lines...)
	return j.note(ctx, p, from, to, err)
}

// note records the failure of one query; a failure of the connection ends all of them.
func (j *job) note(ctx context.Context, p *patient, from, to time.Time, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, prom.ErrUnavailable) {
		if end := p.lose(ctx, j.ask, to, err); end != nil {
			return end
		}
	}
	j.problems = append(j.problems, Problem{From: from, To: to, Err: err.Error()})
	return nil
}

// collect joins the pieces, in the order of queries and of time. The pieces of a query
// are adjacent and are freed once joined: a month of ten thousand GPUs is half a
// gigabyte, and is kept once.
func (a *Answers) collect(jobs []*job) {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].ask == jobs[0].ask {
			n++
		}
		a.join(jobs[:n])
		clear(jobs[:n])
		jobs = jobs[n:]
	}
}

// join joins the pieces of one query.
func (a *Answers) join(jobs []*job) {
	long := map[string]int{} // points of each line
	for _, j := range jobs {
		for _, l := range j.lines {
			long[key(l.Labels)] += len(l.Points)
		}
	}
	at := map[string]int{}
	for _, j := range jobs {
		id := a.Asked[j.ask].ID
		for _, p := range j.problems {
			p.ID = id
			a.problem(p, j.step)
		}
		if j.kind == Now {
			a.Vectors[id] = j.vector
			continue
		}
		for _, l := range j.lines {
			name := key(l.Labels)
			i, ok := at[name]
			if !ok {
				i = len(a.Lines[id])
				at[name] = i
				a.Lines[id] = append(a.Lines[id], prom.Line{Labels: l.Labels, Points: make([]prom.Point, 0, long[name])})
			}
			line := &a.Lines[id][i]
			if j.kind == PerPiece {
				largest(line, l.Points[0].Value, a.Window.Until)
				continue
			}
			line.Points = append(line.Points, l.Points...)
		}
	}
}

// problem adds one. Adjacent pieces with the same error become one: a month has thirty pieces.
func (a *Answers) problem(p Problem, step time.Duration) {
	if foreign(p) {
		return
	}
	if n := len(a.Problems) - 1; n >= 0 {
		if last := &a.Problems[n]; last.ID == p.ID && last.Err == p.Err && p.From.Sub(last.To) <= step {
			last.To = p.To
			return
		}
	}
	a.Problems = append(a.Problems, p)
}

// foreign reports whether a query failed because the server has no native histograms:
// VictoriaMetrics, or an old Prometheus.
func foreign(p Problem) bool {
	switch p.ID {
	case PodWaitNative, NodeReadyNative, DecisionsNative:
		return strings.Contains(p.Err, "unknown func")
	}
	return false
}

// largest keeps one point of all pieces.
func largest(line *prom.Line, v float64, at time.Time) {
	if len(line.Points) == 0 {
		line.Points = []prom.Point{{Time: at, Value: v}}
		return
	}
	// A piece without a number is left out: Go's max returns NaN for it.
	if old := line.Points[0].Value; math.IsNaN(old) || v > old {
		line.Points[0].Value = v
	}
}

func key(ls prom.Labels) string { return string(ls.Bytes(nil)) }

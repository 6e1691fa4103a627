package query

import (
	"cmp"
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

// job is one query over the window, sent piece by piece, and its answer.
type job struct {
	Ask
	step     time.Duration
	pieces   [][2]time.Time // first and last moment
	lines    []prom.Line
	at       map[string]int // index of each line, by its labels
	vector   prom.Vector
	problems []Problem
	lost     int // pieces without an answer
}

// ask sends the queries of the given sources.
func (a *Answers) ask(ctx context.Context, p *patient, o Options) error {
	var sources []Source
	for s, there := range map[Source]bool{FromExporter: a.Exporter, FromAutoscaler: a.Autoscaler, FromServers: a.Servers} {
		if there {
			sources = append(sources, s)
		}
	}
	w := a.Window
	var jobs []*job
	all := 0
	for _, ask := range a.Dialect.Asks(w, sources...) {
		j := &job{Ask: ask, step: map[Kind]time.Duration{Fine: w.Step, Ledger: w.Ledger, Coarse: w.Coarse}[ask.Kind], at: map[string]int{}}
		j.pieces = w.pieces(ask.Kind, j.step)
		ask.PromQL = pieced(ask.PromQL, min(piece, w.Length()))
		a.Asked = append(a.Asked, Asked{Ask: ask, Step: j.step})
		jobs, all = append(jobs, j), all+len(j.pieces)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(o.Concurrency, 4))
	var mu sync.Mutex
	done := 0
	for _, j := range jobs {
		g.Go(func() error {
			for _, piece := range j.pieces {
				if err := j.run(ctx, p, piece[0], piece[1]); err != nil {
					return err
				}
				mu.Lock()
				if done++; o.Progress != nil {
					o.Progress(done, all)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("asking Prometheus: %w", err)
	}
	for _, j := range jobs {
		if a.Problems = append(a.Problems, j.problems...); j.Kind == Now {
			a.Vectors[j.ID] = j.vector
		} else if len(j.lines) > 0 {
			a.Lines[j.ID] = j.lines
		}
	}
	return nil
}

// pieces returns the parts of the window that a query is sent for.
func (w Window) pieces(kind Kind, step time.Duration) (all [][2]time.Time) {
	if kind == Now {
		return [][2]time.Time{{w.Until, w.Until}}
	}
	length := max(piece, step)
	if step > 0 {
		length = min(length/step, time.Duration(max(1, maxRead/max(1, w.series)))) * step
	}
	for from := w.From; from.Before(w.Until); {
		to := from.Add(length)
		if to.After(w.Until) || kind == PerPiece && w.Until.Sub(to) < length/2 { // percentiles over minutes are useless
			to = w.Until
		}
		begin := from // the first piece includes From: counters are compared with their value there
		if kind != PerPiece && from != w.From {
			begin = from.Add(step)
		}
		all = append(all, [2]time.Time{begin, to})
		from = to
	}
	return all
}

// run sends the query for one piece.
func (j *job) run(ctx context.Context, p *patient, from, to time.Time) error {
	var err error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case j.lost >= mostOfOne:
		j.problem(Problem{From: from, To: to, Err: "not sent, because other pieces of the query had no answer"})
		return nil
	case j.Kind == Now:
		j.vector, err = p.Query(ctx, j.PromQL, to)
	case j.Kind == PerPiece:
		var v prom.Vector
		v, err = p.Query(ctx, pieced(j.PromQL, to.Sub(from)), to)
		for _, s := range v {
			line := j.line(s.Labels)
			if len(line.Points) == 0 {
				line.Points = []prom.Point{{Value: math.NaN()}}
			}
			line.Points[0].Time = to
			if v := &line.Points[0].Value; math.IsNaN(*v) || s.Value > *v { // NaN, from a piece without samples, is ignored
				*v = s.Value
			}
		}
	default:
		return j.span(ctx, p, from, to)
	}
	return j.note(ctx, p, from, to, err)
}

// pieced inserts a piece's length into a query.
func pieced(promql string, length time.Duration) string {
	return strings.ReplaceAll(promql, "[PIECE]", "["+seconds(length)+"]")
}

// span queries a part of a piece. If the answer exceeds the server's limits or ours, it queries the two
// halves.
func (j *job) span(ctx context.Context, p *patient, from, to time.Time) error {
	lines, err := p.Range(ctx, j.PromQL, from, to, j.step)
	if half := (to.Sub(from) / 2).Truncate(j.step); tooMuch(err) && half >= shortest {
		if err := j.span(ctx, p, from, from.Add(half)); err != nil {
			return err
		}
		return j.span(ctx, p, from.Add(half).Add(j.step), to)
	}
	for _, l := range lines {
		line := j.line(l.Labels)
		line.Points = append(line.Points, l.Points...)
	}
	return j.note(ctx, p, from, to, err)
}

// line returns the line with these labels, or adds one. Labels are stored once, although every piece repeats
// them.
func (j *job) line(labels prom.Labels) *prom.Line {
	key := string(labels.Bytes(nil))
	i, there := j.at[key]
	if !there {
		i = len(j.lines)
		j.at[key], j.lines = i, append(j.lines, prom.Line{Labels: labels})
	}
	return &j.lines[i]
}

// note records the failure of one query. If it returns an error, the whole report ends.
func (j *job) note(ctx context.Context, p *patient, from, to time.Time, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, prom.ErrUnavailable) {
		j.lost++
		if end := p.lose(ctx, to, err); end != nil {
			return end
		}
	}
	j.problem(Problem{From: from, To: to, Err: err.Error()})
	return nil
}

// problem adds a problem. Adjacent pieces with the same error become one problem: a month has thirty pieces.
func (j *job) problem(p Problem) {
	p.ID = j.ID
	if n := len(j.problems) - 1; n >= 0 && j.problems[n].Err == p.Err && p.From.Sub(j.problems[n].To) <= j.step {
		j.problems[n].To = p.To
		return
	}
	j.problems = append(j.problems, p)
}

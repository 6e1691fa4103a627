package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Prometheus is what the report asks. *prom.Client is one.
type Prometheus interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
	Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error)
}

// Options of Run. The zero value has a meaning.
type Options struct {
	// Match is put into every selector: `cluster="a"`.
	Match string
	// Concurrency is how many queries are under way at once; zero is 4.
	Concurrency int
	// Progress is told how many of all pieces are done; nil for nobody.
	Progress func(done, all int)
	// Pause before a question is asked again that may be answered then; zero is a
	// second.
	Pause time.Duration
}

// ErrNoData is that neither the exporter nor the autoscaler has a series in the
// window, so that there is nothing to report on.
var ErrNoData = errors.New("no GPU series")

// ClustersError is that series of several clusters answer. Pools, tenants and nodes
// of one would be taken for those of another of the same name.
type ClustersError struct{ Names []string }

func (e *ClustersError) Error() string {
	const most = 5
	names := strings.Join(e.Names[:min(most, len(e.Names))], ", ")
	if len(e.Names) > most {
		names += ", …"
	}
	return fmt.Sprintf("these are series of %d clusters (%s), and a report is of one", len(e.Names), names)
}

// clusters says which clusters the series are of. A series without the label is of
// any: the label may have been put on later.
func clusters(ctx context.Context, p Prometheus, d Dialect, w Window) error {
	present := func(desc metric.Desc) string {
		return "present_over_time(" + d.Select(desc.Name, clusterLabel+`!=""`) + "[PIECE])"
	}
	v, err := spanned(ctx, p, "count "+by(clusterLabel)+" ("+present(metric.GPUInfo)+" or "+present(metric.AutoscalerCapacityGPUSeconds)+")", w)
	if err != nil {
		return fmt.Errorf("asking Prometheus: %w", err)
	}
	if len(v) < 2 {
		return nil
	}
	e := &ClustersError{}
	for _, s := range v {
		e.Names = append(e.Names, s.Labels.Get(clusterLabel))
	}
	slices.Sort(e.Names)
	return e
}

// clusterLabel is what Thanos, Mimir and remote writers tell clusters apart by.
const clusterLabel = "cluster"

// piece is the longest time one query is asked about; what fails for its size is
// asked again in halves, down to shortest.
const (
	piece    = 24 * time.Hour
	shortest = time.Hour
)

// Run asks everything. A question the server refuses, answers in part, or takes too
// long over, is a Problem in the Answers, and the rest goes on; a Prometheus that is
// not there, or that leaves many questions open, ends it. The error wraps ErrNoData
// where there is nothing to ask about, and a ClustersError where there is more than one
// cluster.
func Run(ctx context.Context, asked Prometheus, w Window, o Options) (Answers, error) {
	p := &patient{Prometheus: asked, pause: cmp.Or(o.Pause, time.Second), of: map[int]int{}}
	a, err := explore(ctx, p, w, o)
	if err != nil {
		return Answers{}, err
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 4
	}
	jobs := a.jobs()
	if err := do(ctx, p, jobs, o); err != nil {
		return Answers{}, err
	}
	a.collect(jobs)
	return a, nil
}

// explore finds out who is there, how labels are spelled, how far apart samples
// are and how many series there will be.
func explore(ctx context.Context, p Prometheus, w Window, o Options) (Answers, error) {
	a := Answers{Dialect: Dialect{Match: o.Match}, Lines: map[ID][]prom.Line{}, Vectors: map[ID]prom.Vector{}}
	d := a.Dialect
	var err error
	count := func(expression string) int {
		if err != nil {
			return 0
		}
		var v prom.Vector
		if v, err = spanned(ctx, p, expression, w); err != nil {
			err = fmt.Errorf("asking Prometheus: %w", err)
		}
		if len(v) != 1 {
			return 0
		}
		return int(v[0].Value)
	}
	there := func(name string) bool { return count("count(present_over_time("+d.Select(name)+"[PIECE]))") > 0 }
	a.Exporter = there(metric.GPUInfo.Name)
	rows := count("count(present_over_time(" + d.Select(metric.AutoscalerGPUSeconds.Name) + "[PIECE]))")
	a.Autoscaler = rows > 0
	a.Servers = there(metric.VLLMGenerationTokens.Name) || there(metric.SGLangGenerationTokens.Name)
	moved := metric.Exported + metric.LabelNamespace + `!=""`
	a.Dialect.ExporterMoved = count("count(present_over_time("+d.Select(metric.GPUHeld.Name, moved)+"[PIECE]))") > 0
	a.Dialect.AutoscalerMoved = count("count(present_over_time("+d.Select(metric.AutoscalerGPUSeconds.Name, moved)+"[PIECE]))") > 0
	nodes := count("count(count " + by(metric.LabelNode) + " (last_over_time(" + d.Select(metric.GPUInfo.Name) + "[PIECE])))")
	// Samples in ten minutes: a program's densest series tells how often it is scraped.
	scrape := time.Duration(0)
	for _, name := range []string{metric.GPUInfo.Name, metric.AutoscalerCapacityGPUSeconds.Name} {
		if n := count("max(count_over_time(" + d.Select(name) + "[10m]))"); n > 1 {
			scrape = max(scrape, min(max(10*time.Minute/time.Duration(n), time.Second), 5*time.Minute))
		}
	}
	if scrape == 0 {
		scrape = w.Scrape
	}
	if err != nil {
		return Answers{}, err
	}
	if !a.Exporter && !a.Autoscaler {
		others := ""
		if there(dcgmExporter) {
			others = "; those of dcgm-exporter are there, and gpuscale-exporter serves both: docs/migrate-from-dcgm-exporter.md"
		}
		return Answers{}, fmt.Errorf("%w from %s to %s, whole steps of %s%s", ErrNoData, w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339), w.Coarse, others)
	}
	if err := clusters(ctx, p, d, w); err != nil {
		return Answers{}, err
	}
	a.Window = w.widen(scrape, nodes, rows)
	return a, nil
}

// spanned asks about the whole window at once, and where that is more than the server
// will read or has time for, about the last day of it.
func spanned(ctx context.Context, p Prometheus, expression string, w Window) (prom.Vector, error) {
	v, err := p.Query(ctx, pieced(expression, w.Length()), w.Until)
	if err != nil && ctx.Err() == nil && w.Length() > piece && (tooMuch(err) || late(err)) {
		return p.Query(ctx, pieced(expression, piece), w.Until)
	}
	return v, err
}

// tooMuch says whether a question was refused for its size: in the words of Prometheus,
// VictoriaMetrics, Thanos and Mimir.
func tooMuch(err error) bool {
	if err == nil {
		return false
	}
	if !errors.Is(err, prom.ErrBadQuery) {
		return errors.Is(err, prom.ErrTooLarge)
	}
	for _, words := range []string{"too many samples", "select more than", "exceed", "limit"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// dcgmExporter is a series that dcgm-exporter has of every card. It is asked for only
// to tell somebody who has no other what is missing.
const dcgmExporter = "DCGM_FI_DEV_GPU_TEMP"

// job is a question about a piece of the window, and its answer.
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
	for _, s := range []struct {
		is bool
		Source
	}{{a.Exporter, FromExporter}, {a.Autoscaler, FromAutoscaler}, {a.Servers, FromServers}} {
		if s.is {
			sources = append(sources, s.Source)
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *job)
	var wg sync.WaitGroup
	var mu sync.Mutex
	names := map[string]prom.Labels{}
	done := 0
	for range o.Concurrency {
		wg.Go(func() {
			for j := range todo {
				if err := j.run(ctx, p); err != nil {
					cancel(err)
				}
				mu.Lock()
				share(names, j.lines)
				done++
				if o.Progress != nil {
					o.Progress(done, len(jobs))
				}
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		todo <- j
	}
	close(todo)
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("asking Prometheus: %w", context.Cause(ctx))
	}
	return nil
}

// share has lines with the same labels have them once: every piece of a question brings
// those of the piece before again, and of a month there are thirty.
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
		return nil
	case p.hopeless(j.ask):
		j.problems = append(j.problems, Problem{From: j.from, To: j.to, Err: "not asked, since other times of it went without an answer"})
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

// span asks about a part of the piece, and about its halves where that was too
// much for the server or for us.
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

// note keeps what is wrong with one question; what is wrong with the connection
// ends all of them.
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

// collect puts the pieces together, in the order of the questions and of time. Those
// of one question lie side by side and go as soon as they are put together: a month
// of ten thousand cards is half a gigabyte, and should be there once.
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

// join puts together the pieces of one question.
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

// problem adds one. Pieces side by side with the same trouble are one piece: of a month
// there are thirty.
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

// foreign says whether a question found no answer since the server knows no native
// histograms: VictoriaMetrics, or an old Prometheus. Then it has stored none.
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
	// A piece without a number says nothing; Go's max would let it say all.
	if old := line.Points[0].Value; math.IsNaN(old) || v > old {
		line.Points[0].Value = v
	}
}

func key(ls prom.Labels) string {
	var b strings.Builder
	for name, value := range ls.All() {
		b.WriteString(name)
		b.WriteByte(0xff)
		b.WriteString(value)
		b.WriteByte(0xfe)
	}
	return b.String()
}

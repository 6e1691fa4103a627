package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Prometheus is the interface for queries. *prom.Client implements it.
type Prometheus interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
	Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error)
}

// Options of Run. The zero value is valid.
type Options struct {
	// Match is added to every selector: `cluster="a"`.
	Match string
	// Trusted lists the namespaces whose exporters and autoscaler are trusted; empty for all.
	Trusted []string
	// Concurrency is the number of queries at the same time; zero means 4.
	Concurrency int
	// Progress receives how many pieces are done, out of all; may be nil.
	Progress func(done, all int)
	// Pause is the time before the first retry; zero means a second.
	Pause time.Duration
}

// ErrNoData means that neither the exporter nor the autoscaler has a series in the window.
var ErrNoData = errors.New("no GPU series")

// ErrYoung means that the first series are younger than the window's end, which is rounded down to a whole
// step. It wraps ErrNoData.
var ErrYoung = fmt.Errorf("%w yet", ErrNoData)

// ClustersError means that the series come from several clusters. Pools, tenants and nodes of the same name
// would be mixed up.
type ClustersError struct{ Names []string }

func (e *ClustersError) Error() string {
	const most = 5
	names := strings.Join(e.Names[:min(most, len(e.Names))], ", ")
	if len(e.Names) > most {
		names += ", …"
	}
	return fmt.Sprintf("Prometheus has series of %d clusters (%s), and only one can be read", len(e.Names), names)
}

// OneCluster returns a ClustersError if an answer has more than one cluster.
func OneCluster(v prom.Vector) error {
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

// clusterLabel names the cluster in Thanos, Mimir and remote write.
const clusterLabel = "cluster"

// piece is the longest range of one query. A query that is too large is split into halves, down to ranges of
// shortest.
const (
	piece    = 24 * time.Hour
	shortest = time.Hour
)

// Run sends all queries. If a query is refused, answered in part or timed out, it becomes a Problem in the
// Answers. If Prometheus is unreachable or many queries are lost, the run ends with an error. The error wraps
// ErrNoData if there are no series, and is a ClustersError if there is more than one cluster.
func Run(ctx context.Context, asked Prometheus, w Window, o Options) (Answers, error) {
	p := &patient{Prometheus: asked, pause: cmp.Or(o.Pause, time.Second)}
	a, err := explore(ctx, p, w, o)
	if err != nil {
		return Answers{}, err
	}
	if err := a.ask(ctx, p, o); err != nil {
		return Answers{}, err
	}
	return a, nil
}

// explore finds out which sources have series, how labels are named, the scrape interval, and the number of
// series.
func explore(ctx context.Context, p Prometheus, w Window, o Options) (Answers, error) {
	a := Answers{Dialect: Dialect{Match: o.Match, Trusted: o.Trusted}, Lines: map[ID][]prom.Line{}, Vectors: map[ID]prom.Vector{}}
	present := func(name string, matchers ...string) string {
		return a.Dialect.Ranged("present_over_time(%s)", "PIECE", name, matchers...)
	}
	var err error
	ask := func(expression string) (v prom.Vector) {
		if err == nil {
			v, err = spanned(ctx, p, expression, w)
		}
		return v
	}
	for _, s := range ask("group by (namespace) (" + present(metric.GPUInfo.Name) + " or " + present(metric.AutoscalerLeader.Name) + ")") {
		a.Targets = append(a.Targets, s.Labels.Get(metric.LabelNamespace))
	}
	slices.Sort(a.Targets)
	d := a.Dialect
	count := func(expression string) int {
		if v := ask(expression); len(v) == 1 {
			return int(v[0].Value)
		}
		return 0
	}
	there := func(name string) bool { return count("count("+present(name)+")") > 0 }
	gpus := count("count(" + present(metric.GPUInfo.Name) + ")")
	a.Exporter = gpus > 0
	rows := count("count(" + present(metric.AutoscalerGPUSeconds.Name) + ")")
	leads := count("count(" + a.Dialect.Ranged("max_over_time(%s)", "PIECE", metric.AutoscalerLeader.Name) + " == 1)")
	a.Autoscaler = rows+leads > 0 // one that leads has a record of a cluster without GPUs
	a.Servers = slices.ContainsFunc(metric.Names(tokens...), there)
	moved := metric.Exported + metric.LabelNamespace + `!=""`
	a.Dialect.ExporterMoved = count("count("+present(metric.GPUHeld.Name, moved)+")") > 0
	podless := metric.LabelPod + `=""`
	if count("count("+present(metric.AutoscalerLeader.Name, podless)+" or "+present(metric.AutoscalerGPUSeconds.Name, podless)+")") > 0 {
		a.Dialect.Replica = "instance"
	}
	a.Dialect.AutoscalerMoved = count("count("+present(metric.AutoscalerGPUSeconds.Name, moved)+")") > 0
	nodes := count("count(count " + by(metric.LabelNode) + " (" + present(metric.GPUInfo.Name) + "))")
	series := max(gpus, count("count("+d.Select(metric.GPUHeld.Name)+")"))
	// Samples within ten minutes: a program's series with the most samples gives its scrape interval.
	scrape := time.Duration(0)
	for _, name := range []string{metric.GPUInfo.Name, metric.AutoscalerCapacityGPUSeconds.Name} {
		if n := count("max(" + d.Ranged("count_over_time(%s)", "10m", name) + ")"); n > 1 {
			scrape = max(scrape, min(max(10*time.Minute/time.Duration(n), time.Second), 5*time.Minute))
		}
	}
	if scrape == 0 {
		scrape = w.Scrape
	}
	of := func(desc metric.Desc) string { return present(desc.Name, clusterLabel+`!=""`) }
	// A series without the label may belong to any cluster: the label may have been added later.
	names := ask("count " + by(clusterLabel) + " (" + of(metric.GPUInfo) + " or " + of(metric.AutoscalerCapacityGPUSeconds) + ")")
	if err != nil {
		return Answers{}, fmt.Errorf("asking Prometheus: %w", err)
	}
	if !a.Exporter && !a.Autoscaler {
		return Answers{}, noData(ctx, p, w, d, there(metric.DCGMTemperature.Name) || there(metric.DCGMTemperatureNew.Name))
	}
	if err := OneCluster(names); err != nil {
		return Answers{}, err
	}
	a.Window = w.widen(scrape, nodes, series, rows)
	return a, nil
}

// noData says why there are no series, or from when on there are enough.
func noData(ctx context.Context, p Prometheus, w Window, d Dialect, dcgm bool) error {
	if rest := w.until.Sub(w.Until).Truncate(time.Second); rest > 0 {
		v, err := p.Query(ctx, fmt.Sprintf("count(present_over_time(%s[%ds]))", d.Select(metric.GPUInfo.Name), int(rest.Seconds())), w.until)
		if err == nil && len(v) > 0 {
			return fmt.Errorf("%w: the first series began after %s, and a report has whole steps of %s: try again after %s",
				ErrYoung, w.Until.Format(time.RFC3339), w.Coarse, w.Until.Add(2*w.Coarse).Format(time.RFC3339))
		}
	}
	others := ""
	if dcgm {
		others = "; those of dcgm-exporter are there, and gpuscale-exporter serves both: docs/migrate.md"
	}
	if len(d.Trusted) > 0 {
		others += "; those of targets in other namespaces than " + strings.Join(d.Trusted, ", ") + " do not count (--exporter-namespaces)"
	}
	return fmt.Errorf("%w from %s to %s, whole steps of %s%s", ErrNoData, w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339), w.Coarse, others)
}

// spanned queries the whole window at once. If that exceeds the server's limits, it queries the last day.
func spanned(ctx context.Context, p Prometheus, expression string, w Window) (prom.Vector, error) {
	v, err := p.Query(ctx, pieced(expression, w.Length()), w.Until)
	if err != nil && ctx.Err() == nil && w.Length() > piece && (tooMuch(err) || late(err)) {
		return p.Query(ctx, pieced(expression, piece), w.Until)
	}
	return v, err
}

// tooMuch reports whether a query was refused because of its size, by the error texts of Prometheus,
// VictoriaMetrics, Thanos and Mimir.
func tooMuch(err error) bool {
	if !errors.Is(err, prom.ErrBadQuery) {
		return errors.Is(err, prom.ErrTooLarge)
	}
	return says(err, "too many samples", "select more than", "exceed", "limit")
}

// says reports whether an error contains one of these texts.
func says(err error, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
}

// Answers is what Prometheus returned: everything a report is computed from, except prices.
type Answers struct {
	Window  Window
	Dialect Dialect
	// Exporter, Autoscaler and Servers report which sources have series in the window.
	Exporter, Autoscaler, Servers bool
	// Targets are the namespaces of the exporters' and autoscalers' scrape targets.
	Targets []string
	// Lines are the answers to range queries, by ID. A PerPiece query has lines of one point.
	Lines map[ID][]prom.Line
	// Vectors are the answers to instant queries, by ID.
	Vectors map[ID]prom.Vector
	// Asked lists the queries in their order, for the methods section.
	Asked []Asked
	// Problems lists queries, or pieces of them, without a usable answer.
	Problems []Problem
}

// Asked is a query as it was sent.
type Asked struct {
	Ask
	// Step is the time between values; zero for an instant query.
	Step time.Duration
}

// Problem is a piece of the window for which a query has no answer.
type Problem struct {
	ID       ID
	From, To time.Time
	Err      string
}

// Unanswered lists, each once, the queries with at least one missing piece.
func (a Answers) Unanswered() []ID {
	var ids []ID
	for _, p := range a.Problems {
		if !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Missing reports, for each of the N+1 moments of a grid, whether one of the answers is missing there. A
// missing line at such a moment is unknown, not zero.
func (a Answers) Missing(g Grid, ids ...ID) []bool {
	missing := make([]bool, g.N+1)
	for _, p := range a.Problems {
		if !slices.Contains(ids, p.ID) {
			continue
		}
		for i := range missing {
			at := g.At(i)
			missing[i] = missing[i] || !at.Before(p.From) && !at.After(p.To)
		}
	}
	return missing
}

// patient retries queries that fail briefly. A query that gets no answer fails alone. A report sends
// thousands of queries over minutes, so some of them hit a restart, a proxy's limit or a block that takes too
// long to read.
type patient struct {
	Prometheus
	pause time.Duration

	mu   sync.Mutex
	lost int // pieces without any answer
}

// Bounds of retries. Each lost query may have taken the whole timeout.
const (
	tries     = 3  // per query, with exponential backoff
	mostLost  = 20 // pieces of all queries
	mostOfOne = 2  // pieces of one query; its other pieces are not sent
)

// Query and Range are Prometheus' methods with retries.
func (p *patient) Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
	return again(ctx, p.pause, func() (prom.Vector, error) { return p.Prometheus.Query(ctx, promql, at) })
}

func (p *patient) Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error) {
	return again(ctx, p.pause, func() ([]prom.Line, error) { return p.Prometheus.Range(ctx, promql, from, to, step) })
}

func again[T any](ctx context.Context, pause time.Duration, ask func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		answer, err := ask()
		if n == tries || !passing(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// passing reports whether a retry may succeed. A query that timed out would time out again, and a rejected
// credential stays rejected.
func passing(err error) bool {
	return errors.Is(err, prom.ErrUnavailable) && !late(err) && says(err, "HTTP 429", "HTTP 502", "HTTP 503", "EOF", "connection reset")
}

// late reports whether a query timed out, here or at the server.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || says(err, "timed out", "timeout")
}

// lose records a piece without an answer. It returns an error, which ends the report, if Prometheus does not
// answer even the simplest query or if too many pieces are lost.
func (p *patient) lose(ctx context.Context, at time.Time, err error) error {
	p.mu.Lock()
	p.lost++
	lost := p.lost
	p.mu.Unlock()
	if lost > mostLost {
		return fmt.Errorf("%d queries had no answer: %w", lost, err)
	}
	if _, simplest := p.Query(ctx, "vector(1)", at); errors.Is(simplest, prom.ErrUnavailable) {
		return err
	}
	return nil
}

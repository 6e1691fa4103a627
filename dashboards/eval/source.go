package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// Source answers PromQL.
type Source interface {
	// Instant returns a point for each series at a time.
	Instant(ctx context.Context, expr string, at time.Time) ([]Line, error)
	// Range returns the points of each series at every step, gaps left out.
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Line, error)
}

// Line is a series and its values, ascending in time.
type Line struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// Parse reads PromQL as Prometheus does.
func Parse(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(expr)
}

// Reads are the names of the series that PromQL reads, sorted.
func Reads(expr string) ([]string, error) {
	e, err := Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var names []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), nil
}

// engine is Prometheus' own engine over a storage.
type engine struct {
	engine *promql.Engine
	data   storage.Queryable
}

// Engine returns a Source over a storage, evaluated by Prometheus' own engine.
func Engine(data storage.Queryable) Source {
	return engine{data: data, engine: memstore.NewEngine(nil)}
}

func (e engine) Instant(ctx context.Context, expr string, at time.Time) ([]Line, error) {
	vector, _, err := memstore.Instant(ctx, e.engine, e.data, expr, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	lines := make([]Line, 0, len(vector))
	for _, s := range vector {
		lines = append(lines, Line{Labels: s.Metric.Map(), Points: []Point{{Time: at, Value: s.F}}})
	}
	return lines, nil
}

func (e engine) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Line, error) {
	q, err := e.engine.NewRangeQuery(ctx, e.data, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer q.Close()
	matrix, err := q.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	lines := make([]Line, 0, len(matrix))
	for _, s := range matrix {
		line := Line{Labels: s.Metric.Map()}
		for _, p := range s.Floats {
			line.Points = append(line.Points, Point{Time: time.UnixMilli(p.T), Value: p.F})
		}
		lines = append(lines, line)
	}
	return lines, nil
}

type client struct{ c *prom.Client }

// Client returns a Source that is a Prometheus.
func Client(c *prom.Client) Source { return client{c} }

func (s client) Instant(ctx context.Context, expr string, at time.Time) ([]Line, error) {
	vector, err := s.c.Query(ctx, expr, at)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, 0, len(vector))
	for _, v := range vector {
		lines = append(lines, Line{Labels: named(v.Labels), Points: []Point{{Time: at, Value: v.Value}}})
	}
	return lines, nil
}

func (s client) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Line, error) {
	answer, err := s.c.Range(ctx, expr, from, to, step)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, 0, len(answer))
	for _, l := range answer {
		line := Line{Labels: named(l.Labels)}
		for _, p := range l.Points {
			line.Points = append(line.Points, Point{Time: p.Time, Value: p.Value})
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func named(ls prom.Labels) map[string]string {
	m := map[string]string{}
	for name, value := range ls.All() {
		m[name] = value
	}
	return m
}

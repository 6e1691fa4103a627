package eval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// Source answers PromQL. *prom.Client is one.
type Source interface {
	Query(ctx context.Context, expr string, at time.Time) (prom.Vector, error)
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]prom.Line, error)
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

// Engine returns a Source over a storage, evaluated by Prometheus' own engine.
func Engine(data storage.Queryable) Source { return memstore.Over(data) }

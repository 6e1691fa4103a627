package query

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// Answers is what Prometheus returned: all input of a report but prices.
type Answers struct {
	Window  Window
	Dialect Dialect
	// Sources that have series in the window.
	Exporter, Autoscaler, Servers bool
	// Targets are the namespaces of the exporters' and autoscalers' scrape targets.
	Targets []string
	// Lines of range queries, by ask; of PerPiece one point, at the window's end.
	Lines map[ID][]prom.Line
	// Vectors of instant queries, by ask.
	Vectors map[ID]prom.Vector
	// Asked lists the queries in their order, for the methods section.
	Asked []Asked
	// Problems are queries, or pieces of them, without a usable answer.
	Problems []Problem
}

// Asked is a query as it was sent.
type Asked struct {
	Ask
	// Step between values; zero for what is asked at one moment.
	Step time.Duration
}

// Problem is a piece of the window without an answer to a query.
type Problem struct {
	ID       ID
	From, To time.Time
	Err      string
}

// Unanswered lists the queries of which a piece of the answer is missing, each once.
func (a Answers) Unanswered() []ID {
	var ids []ID
	for _, p := range a.Problems {
		if !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Missing reports at which moments of a grid any of the answers is missing. No line at
// such a moment is unknown, not zero. It has N+1 values.
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

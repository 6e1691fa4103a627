package query

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// Answers is what Prometheus has said: all that a report is made from.
type Answers struct {
	Window  Window
	Dialect Dialect
	// Sources that have series in the window.
	Exporter, Autoscaler, Servers bool
	// Lines of range queries, by ask; of PerPiece one point, at the window's end.
	Lines map[ID][]prom.Line
	// Vectors of instant queries, by ask.
	Vectors map[ID]prom.Vector
	// Asked lists the questions in their order, for the methods section.
	Asked []Asked
	// Problems are questions, or pieces of them, without a usable answer.
	Problems []Problem
}

// Asked is a question as it was put.
type Asked struct {
	Ask
	// Step between values; zero for what is asked at one moment.
	Step time.Duration
}

// Problem is a piece of time without an answer to a question.
type Problem struct {
	ID       ID
	From, To time.Time
	Err      string
}

// Failed says whether any piece of an answer is missing.
func (a Answers) Failed(id ID) bool {
	for _, p := range a.Problems {
		if p.ID == id {
			return true
		}
	}
	return false
}

// Unanswered lists the questions of which a piece of the answer is missing, each once.
func (a Answers) Unanswered() []ID {
	var ids []ID
	for _, p := range a.Problems {
		if !slices.Contains(ids, p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Missing says at which moments of a grid any of the answers is missing: nothing there
// does not mean that there was nothing. It has N+1 values.
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

package cache

import (
	"errors"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// DefaultBackend is the backend of a question that names none.
const DefaultBackend = "default"

// Question is a query whose answer the cache keeps fresh. Rule, Backend, Query
// and Version identify it; two questions equal in these are one, and the first
// one's Build answers both.
type Question struct {
	// Rule is the label of metrics and logs.
	Rule string
	// Backend to ask; "" is DefaultBackend.
	Backend string
	// Query is sent each interval. History, if not "", replaces it in the first
	// query after the start or an idle time: it must return what Query returns
	// and the recent past as well.
	Query, History string
	// Version distinguishes questions of one query whose Build differs, for
	// example because their rule was changed and reloaded.
	Version string
	// Build makes the next state from the one before (nil at first) and an
	// answer, and counts the answer's series and those of no use. One call at
	// a time. A state is immutable once returned, and never nil.
	Build func(previous any, v prom.Vector, r signal.Reading) (next any, series int, dropped map[signal.Reason]int)
	// Intake, if not nil, replaces Build for backends that implement Streamer.
	Intake Intake
}

// Intake builds states from large answers without a vector: Begin, Add for each
// element, Build. One goroutine at a time. After a truncated answer comes the
// next Begin.
type Intake interface {
	Begin()
	// Add takes labels as [Streamer] passes them.
	Add(labels [][2][]byte, value float64)
	Build(previous any, r signal.Reading) (next any, series int, dropped map[signal.Reason]int)
}

// State is what is known about a question.
type State struct {
	// Value is what Build last returned; nil before the first good answer.
	Value any
	// Failure of the last query, if it failed. The value does not change then.
	Failure error
	// At is when the last good answer came; zero before the first.
	At time.Time
}

// ErrTooManyQuestions: the cache has MaxQuestions questions and takes no more
// until one of them is idle for IdleAfter.
var ErrTooManyQuestions = errors.New("too many questions at once")

// key identifies a question.
type key struct{ rule, backend, query, version string }

func (q Question) key() key { return key{q.Rule, q.Backend, q.Query, q.Version} }

// forRule returns the question whose states are the rule's tables, built with
// scratch.
func forRule(r Rule, scratch *signal.Scratch) Question {
	return Question{
		Rule: r.Name, Backend: r.Backend, Query: r.Query(), History: r.History(), Version: r.version(),
		Build: func(previous any, v prom.Vector, reading signal.Reading) (any, int, map[signal.Reason]int) {
			return build(r.Rule, scratch, previous, samples(v), reading)
		},
		Intake: &intake{signal.NewIntake(), r.Rule, scratch},
	}
}

// intake builds a rule's tables.
type intake struct {
	*signal.Intake
	rule    signal.Rule
	scratch *signal.Scratch
}

// Build implements Intake.
func (i *intake) Build(previous any, reading signal.Reading) (any, int, map[signal.Reason]int) {
	return build(i.rule, i.scratch, previous, i.End(), reading)
}

func build(rule signal.Rule, scratch *signal.Scratch, previous any, samples []signal.Sample, reading signal.Reading) (any, int, map[signal.Reason]int) {
	table, ok := previous.(*signal.Table)
	if !ok {
		table = signal.NewTable(rule)
	}
	next, dropped := table.ReadWith(scratch, samples, reading)
	return next, next.Series(), dropped
}

func samples(vector prom.Vector) []signal.Sample {
	all := make([]signal.Sample, len(vector))
	for i, s := range vector {
		all[i] = signal.NewSample(s.Labels.All(), s.Value)
	}
	return all
}

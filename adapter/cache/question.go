package cache

import (
	"errors"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// DefaultBackend is the backend of a question that names none.
const DefaultBackend = "default"

// Question is something to keep answered. Rule, Backend, Query and Version
// together say which one it is; two questions equal in these are one, and the
// first one's Build answers both.
type Question struct {
	// Rule is the label of metrics and logs.
	Rule string
	// Backend to ask; "" is DefaultBackend.
	Backend string
	// Query is asked each interval. History, if not "", is asked in its place
	// by the first query after the start or an idle time: it must give what
	// Query gives and the recent past beside it.
	Query, History string
	// Version distinguishes questions of one query whose Build differs, for
	// example because their rule was changed and reloaded.
	Version string
	// Build makes the next state from the one before (nil at first) and an
	// answer, and counts the answer's series and those of no use. One call at
	// a time. A state is immutable once returned, and never nil.
	Build func(previous any, v prom.Vector, r signal.Reading) (next any, series int, dropped map[signal.Reason]int)
	// Intake, if not nil, does what Build does for backends that hand out
	// their answers element by element.
	Intake Intake
}

// Intake makes states of large answers without a vector between: Begin, Add
// for each element, Build. One goroutine at a time. An answer that breaks off is
// followed by the next Begin.
type Intake interface {
	Begin()
	// Add is given labels as [Streamer] has them.
	Add(labels [][2][]byte, value float64)
	Build(previous any, r signal.Reading) (next any, series int, dropped map[signal.Reason]int)
}

// State is what is known about a question.
type State struct {
	// Value is what Build last returned; nil before the first good answer.
	Value any
	// Failure of the last query, if it failed. The value stays what it was.
	Failure error
	// At is when the last good answer came; zero before the first.
	At time.Time
}

// ErrTooManyQuestions: the cache keeps MaxQuestions answered and takes no more
// until one of them has not been asked for IdleAfter.
var ErrTooManyQuestions = errors.New("too many questions at once")

// key says which question it is.
type key struct{ rule, backend, query, version string }

func (q Question) key() key { return key{q.Rule, q.Backend, q.Query, q.Version} }

// forRule is the question whose states are the rule's tables. They are built
// in room.
func forRule(r Rule, room *signal.Room) Question {
	return Question{
		Rule: r.Name, Backend: r.Backend, Query: r.Query(), History: r.History(), Version: r.version(),
		Build: func(previous any, v prom.Vector, reading signal.Reading) (any, int, map[signal.Reason]int) {
			return build(r.Rule, room, previous, samples(v), reading)
		},
		Intake: &intake{signal.NewIntake(), r.Rule, room},
	}
}

// intake is a rule's.
type intake struct {
	*signal.Intake
	rule signal.Rule
	room *signal.Room
}

// Build implements Intake.
func (i *intake) Build(previous any, reading signal.Reading) (any, int, map[signal.Reason]int) {
	return build(i.rule, i.room, previous, i.End(), reading)
}

func build(rule signal.Rule, room *signal.Room, previous any, samples []signal.Sample, reading signal.Reading) (any, int, map[signal.Reason]int) {
	table, ok := previous.(*signal.Table)
	if !ok {
		table = signal.NewTable(rule)
	}
	next, dropped := table.ReadIn(room, samples, reading)
	return next, next.Series(), dropped
}

func samples(vector prom.Vector) []signal.Sample {
	all := make([]signal.Sample, len(vector))
	for i, s := range vector {
		all[i] = signal.NewSample(s.Labels.All(), s.Value)
	}
	return all
}

package cache

import (
	"errors"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// DefaultBackend is the backend of a question that names none.
const DefaultBackend = "default"

// Question is what the cache asks a backend, for one namespace or for several at
// once. Rule, Backend and Version identify it; two questions equal in these are
// one, and the first one's functions serve both.
type Question struct {
	// Rule is the label of metrics and logs.
	Rule string
	// Backend to ask; "" is DefaultBackend.
	Backend string
	// Version distinguishes the questions of one rule.
	Version string
	// Past: a namespace's first state is built from the recent past as well.
	Past bool
	// Queries returns the queries whose answers together are the namespaces': of
	// the present, or of the recent past.
	Queries func(past bool, namespaces []string) []string
	// Namespace returns which namespace a series is about; "" for none, Everywhere
	// for all. Nil means
	// that the queries are about one namespace, or about the cluster: they are sent
	// for each namespace by itself.
	Namespace func(prom.Labels) string
	// Build makes a namespace's next state from the one before (nil at first) and
	// an answer, and counts the answer's series and those of no use. One call at a
	// time for a namespace. A state is immutable once returned, and never nil.
	Build func(previous any, v prom.Vector, r signal.Reading) (next any, series int, dropped map[signal.Reason]int)
	// Suspects, if not nil, returns smaller queries for one namespace, by the name
	// of the series they are about, which help to find the one at fault.
	Suspects func(namespace string) (names, queries []string)
}

// Everywhere stands for every namespace that a query is about.
const Everywhere = "*"

// Errors about the number of questions.
var (
	// ErrTooManyQuestions: the namespace has its share of questions, and gets no
	// more until one of them is idle for IdleAfter.
	ErrTooManyQuestions = errors.New("too many questions at once")
	errIdle             = errors.New("the question has just been forgotten; it is asked again with the next request")
	// ErrTooLarge: the namespace has more series than its budget.
	ErrTooLarge = prom.ErrTooLarge
)

// key identifies a question.
type key struct{ rule, backend, version string }

func (q Question) key() key { return key{q.Rule, q.Backend, q.Version} }

// forRule returns the question whose states are the rule's tables.
func forRule(r Rule) Question {
	return Question{
		Rule: r.Name, Backend: r.Backend, Past: true,
		Queries:   func(past bool, namespaces []string) []string { return r.Queries(past, namespaces...) },
		Namespace: func(ls prom.Labels) string { return r.Rule.Namespace(ls.Get) },
		Build: func(previous any, v prom.Vector, reading signal.Reading) (any, int, map[signal.Reason]int) {
			table, ok := previous.(*signal.Table)
			if !ok {
				table = signal.NewTable(r.Rule)
			}
			all := make([]signal.Sample, len(v))
			for i, s := range v {
				all[i] = r.Sample(s.Labels.All(), s.Value)
			}
			next, dropped := table.Read(all, reading)
			return next, next.Series(), dropped
		},
		Suspects: r.Suspects,
	}
}

package cache

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// topic is one question, in each namespace from which requests come.
type topic struct {
	Question
	wake  chan struct{}    // holds one token
	units map[string]*unit // by namespace
	// width is how many namespaces one query is about. It is halved when an
	// answer about several is too much and one about each alone is not. Later it
	// is doubled again.
	width   int
	most    int // upper bound of width
	widened time.Time
}

// unit is a namespace of a topic.
type unit struct {
	State
	topic     *topic
	namespace string
	asked     time.Time // last request
	due       time.Time // no query before that
	inFlight  bool
	// first is closed when the first query has ended; nil afterwards.
	first chan struct{}

	// evaluated is when the last good answer was evaluated, on the server's
	// clock.
	evaluated time.Time
	dropped   map[signal.Reason]int // of that answer

	// past is how many more times the past may fail while the present is answered. It is
	// 0 once the past is known or given up.
	past int
	// alone: the namespace is asked about by itself. good is since when all its
	// answers have been good; zero after a failure. failures counts the failures
	// in a row.
	alone    bool
	good     time.Time
	failures int
	blamed   string // the error whose series has been looked for
	culprit  string
}

const (
	// maxWidth is how many namespaces one query may be about.
	maxWidth = 50
	// probation is how long a namespace that is asked about by itself must have
	// good answers before it is asked about together with others.
	probation = 10 * time.Minute
	// patience is how often the past is queried for a namespace before it is
	// given up.
	patience = 2
	// longest is the longest time between two queries about a namespace that
	// fails by itself.
	longest = time.Minute
)

func newTopic(q Question, b *server) *topic {
	most := maxWidth
	if q.Namespace == nil || b.NamespaceParameter != "" {
		most = 1
	}
	return &topic{Question: q, wake: make(chan struct{}, 1), units: map[string]*unit{}, width: most, most: most}
}

// units yields those of all topics. The caller holds mu.
func (c *Cache) units() iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		for _, t := range c.topics {
			for _, u := range t.units {
				if !yield(u) {
					return
				}
			}
		}
	}
}

// batches returns the namespaces to ask about now, one batch for each query, and marks them
// as in flight: the new namespaces, or all of them if due. The caller holds mu.
func (t *topic) batches(now time.Time, due bool) (all [][]*unit) {
	if t.width < t.most && now.Sub(t.widened) >= probation {
		t.width, t.widened = min(t.most, 2*t.width), now
	}
	var fresh, begun []*unit
	for _, u := range t.units {
		switch {
		case u.inFlight || u.first == nil && !due || u.due.After(now):
			continue
		case u.alone:
			all = append(all, []*unit{u})
		case u.past > 0:
			fresh = append(fresh, u)
		default:
			begun = append(begun, u)
		}
		u.inFlight = true
	}
	for _, some := range [][]*unit{fresh, begun} {
		slices.SortFunc(some, func(a, b *unit) int { return strings.Compare(a.namespace, b.namespace) })
		all = slices.AppendSeq(all, slices.Chunk(some, t.width))
	}
	return all
}

// narrow lets later queries be about fewer namespaces. The caller holds mu.
func (t *topic) narrow(width int) {
	t.width, t.widened = max(1, min(t.width, width)), time.Now()
}

// ended records that a query has ended, and releases the waiting requests. The caller holds mu.
func (u *unit) ended(err error) {
	u.Failure, u.inFlight = err, false
	if u.first != nil {
		close(u.first)
		u.first = nil
	}
}

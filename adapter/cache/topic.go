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
	// width is how many namespaces are asked about at once: halved when an answer
	// is too much although no namespace alone is, doubled again later.
	width   int
	most    int // of width
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

	// evaluated is when the last good answer was, on the server's clock.
	evaluated time.Time
	series    int // of that answer
	dropped   map[signal.Reason]int

	// past is how often the past may yet be queried while only the present is answered; 0
	// once the past is known or is gone without.
	past int
	// alone: the namespace is asked about by itself. good is since when it has had
	// good answers; failures are those in a row.
	alone    bool
	good     time.Time
	failures int
	blamed   string // the error whose series has been looked for
	culprit  string
}

const (
	// maxWidth is how many namespaces one query may be about.
	maxWidth = 50
	// probation is how long a namespace that was asked about by itself has to be
	// good to be asked about together with others.
	probation = 10 * time.Minute
	// patience is how often the past is queried before a namespace goes without.
	patience = 2
	// longest is how long a namespace that fails by itself waits at most.
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

// batches returns the namespaces to ask about, divided into those to be asked about
// together, and marks them: the new ones, or if it is due all of them. The caller holds mu.
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

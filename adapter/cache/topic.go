package cache

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// topic is one question, and what is known about it in each namespace from which
// requests come.
type topic struct {
	Question
	// empty is the table of a rule before its first answer; nil for others.
	empty *signal.Table
	wake  chan struct{} // holds one token

	mu    sync.Mutex
	units map[string]*unit // by namespace
	over  bool             // the topic has ended
	// width is how many namespaces are asked about at once: halved when an answer
	// is too much although no namespace alone is, doubled again later.
	width   int
	most    int // of width
	widened time.Time
}

// unit is a namespace of a topic. The topic's lock guards it.
type unit struct {
	namespace string
	asked     time.Time // last request
	due       time.Time // of the next query
	inFlight  bool
	// first is closed when the first query has ended; nil afterwards.
	first chan struct{}

	value any
	at    time.Time // of the last good answer
	// evaluated is when, on the server's clock.
	evaluated time.Time
	series    int
	dropped   map[signal.Reason]int
	err       error // of the last query

	// begun: the past is known, or cannot be had. tries counts the queries of the
	// past that failed while that of the present was answered.
	begun bool
	tries int
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

func newTopic(q Question, most int) *topic {
	if q.Namespace == nil {
		most = 1
	}
	return &topic{Question: q, wake: make(chan struct{}, 1), units: map[string]*unit{}, width: most, most: most}
}

// ask records a request in a namespace, and returns a channel to wait on if there
// has been no answer yet. It returns nil for a topic that has ended.
func (t *topic) ask(namespace string, now time.Time) (*unit, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, nil
	}
	u := t.units[namespace]
	if u == nil {
		u = &unit{namespace: namespace, first: make(chan struct{}), begun: !t.Past}
		t.units[namespace] = u
		select {
		case t.wake <- struct{}{}:
		default: // already woken
		}
	}
	u.asked = now
	return u, u.first
}

// ended records the result of a query and releases the waiting requests.
func (u *unit) ended(err error) {
	u.err, u.inFlight = err, false
	if u.first != nil {
		close(u.first)
		u.first = nil
	}
}

// forget removes the namespaces in which nothing has been requested for a while,
// and reports whether any are left.
func (t *topic) forget(now time.Time, after time.Duration) (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, u := range t.units {
		if !u.inFlight && now.Sub(u.asked) > after {
			delete(t.units, name)
		}
	}
	return len(t.units) > 0
}

// batches returns the namespaces to ask about, divided into those to be asked about
// together, and marks them: the new ones, or if it is due all of them.
func (t *topic) batches(now time.Time, due bool) [][]*unit {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.width < t.most && now.Sub(t.widened) >= probation {
		t.width, t.widened = min(t.most, 2*t.width), now
	}
	var alone [][]*unit
	var fresh, begun []*unit
	for _, u := range t.units {
		switch {
		case u.inFlight || u.first == nil && !due || u.due.After(now):
			continue
		case u.alone:
			alone = append(alone, []*unit{u})
		case u.begun:
			begun = append(begun, u)
		default:
			fresh = append(fresh, u)
		}
		u.inFlight = true
	}
	for _, some := range [][]*unit{fresh, begun} {
		slices.SortFunc(some, func(a, b *unit) int { return strings.Compare(a.namespace, b.namespace) })
		for batch := range slices.Chunk(some, t.width) {
			alone = append(alone, batch)
		}
	}
	return alone
}

// narrow lets later queries be about fewer namespaces.
func (t *topic) narrow(width int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.width, t.widened = max(1, min(t.width, width)), now
}

// stored records a good answer.
func (t *topic) stored(u *unit, next any, series int, dropped map[signal.Reason]int, evaluated, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.value, u.at, u.evaluated, u.series, u.dropped, u.begun = next, now, evaluated, series, dropped, true
	u.failures, u.blamed, u.culprit = 0, "", ""
	if u.good.IsZero() {
		u.good = now
	}
	if u.alone && now.Sub(u.good) >= probation {
		u.alone = false
	}
	u.ended(nil)
}

// failed records a failure. guilty says that it is the namespace's own.
func (t *topic) failed(u *unit, err error, guilty bool, now time.Time, interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u.good = time.Time{}
	u.alone = u.alone || guilty
	if u.alone {
		u.failures++
		u.due = now.Add(min(interval<<min(u.failures-1, 6), longest))
	}
	u.ended(err)
}

// State is what is known about a question in a namespace.
type State struct {
	// Value is what Build last returned; nil before the first good answer.
	Value any
	// Failure of the last query, if it failed. The value does not change then.
	Failure error
	// At is when the last good answer came; zero before the first.
	At time.Time
}

func (t *topic) state(u *unit) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return State{Value: u.value, Failure: u.err, At: u.at}
}

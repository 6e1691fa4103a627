package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Errors of requests.
var (
	// ErrUnknownRule: no rule of that name is declared.
	ErrUnknownRule = errors.New("unknown rule")
	// ErrTooManyQuestions: the namespace has MaxQuestions, and gets no more until one of
	// them is idle for IdleAfter.
	ErrTooManyQuestions = errors.New("too many questions at once")
)

// Cache keeps the answers to questions fresh, in the namespaces from which requests
// come. Its methods are safe for concurrent use.
type Cache struct {
	opts     Options
	backends map[string]*server
	rules    map[string]Question
	metrics  *metrics
	log      *slog.Logger

	mu      sync.Mutex      // guards what follows, the topics and the units
	topics  map[key]*topic  // with a request in the last IdleAfter
	ctx     context.Context // of Run; nil before and after
	running sync.WaitGroup
}

// New returns a cache for a setup. The setup's names must be unique, and it must have each
// rule's backend. New sends no query; Run does.
func New(s Setup, reg prometheus.Registerer, log *slog.Logger) *Cache {
	c := &Cache{opts: s.Options, backends: map[string]*server{}, rules: map[string]Question{}, topics: map[key]*topic{}, log: log}
	slots := max(1, s.Options.Concurrency)
	for _, b := range s.Backends {
		c.backends[b.Name] = &server{Backend: b, shared: make(chan struct{}, slots), own: make(chan struct{}, slots)}
	}
	c.metrics = newMetrics(reg, c)
	for _, r := range s.Rules {
		r.Backend = cmp.Or(r.Backend, DefaultBackend)
		c.rules[r.Name] = forRule(r)
		c.metrics.declare(c.rules[r.Name])
	}
	return c
}

// Run refreshes the answers until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, t := range c.topics {
		c.start(t)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.locked(func() { c.ctx = nil })
	c.running.Wait()
}

// start begins to refresh t, if the cache runs. The caller holds mu.
func (c *Cache) start(t *topic) {
	if ctx := c.ctx; ctx != nil {
		c.running.Go(func() { c.keep(ctx, t) })
	}
}

func (c *Cache) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// Has reports whether a rule of that name is in use.
func (c *Cache) Has(name string) bool { return c.rules[name].Empty != nil }

// Rules returns the declared rules, by name.
func (c *Cache) Rules() (all []signal.Rule) {
	for _, name := range slices.Sorted(maps.Keys(c.rules)) {
		all = append(all, c.rules[name].Empty.Rule())
	}
	return all
}

// View returns what is known about a rule in a namespace. Only the first request
// there waits, for at most FirstWait. The error is ErrUnknownRule or the context's.
func (c *Cache) View(ctx context.Context, name, namespace string) (State, error) {
	q, ok := c.rules[name]
	if !ok {
		return State{}, fmt.Errorf("%w %q", ErrUnknownRule, name)
	}
	return c.await(ctx, q, namespace)
}

// State is what is known about a question in a namespace.
type State struct {
	// Table of the last good answer, an empty one before the first.
	Table *signal.Table
	// Failure of the last query, if it failed. The table's values stay usable
	// until they are too old; the failure says why they are not refreshed.
	Failure error
	// At is when the last good answer came; zero before the first.
	At time.Time
}

// Watch returns what is known about q in a namespace and keeps it fresh until
// IdleAfter has passed without another Watch. The first Watch waits for the
// answer, for at most FirstWait. The error is ErrTooManyQuestions or the
// context's; a query that failed is the State's Failure.
func (c *Cache) Watch(ctx context.Context, q Question, namespace string) (State, error) {
	q.Backend = cmp.Or(q.Backend, DefaultBackend)
	return c.await(ctx, q, namespace)
}

func (c *Cache) await(ctx context.Context, q Question, namespace string) (s State, err error) {
	var u *unit
	var first <-chan struct{}
	c.locked(func() {
		if u, err = c.ask(q, namespace, time.Now()); err == nil {
			s, first = u.State, u.first
		}
	})
	if first == nil {
		return s, err
	}
	wait := time.NewTimer(c.opts.FirstWait)
	defer wait.Stop()
	select {
	case <-first:
	case <-wait.C:
		err = fmt.Errorf("no answer from Prometheus within %s", c.opts.FirstWait)
	case <-ctx.Done():
		return State{}, ctx.Err()
	}
	c.locked(func() { s = u.State })
	s.Failure = cmp.Or(err, s.Failure)
	return s, nil
}

// ask records a request in a namespace, and returns its unit, a new one for a new question.
// The caller holds mu.
func (c *Cache) ask(q Question, namespace string, now time.Time) (*unit, error) {
	t := c.topics[q.key()]
	if t != nil && t.units[namespace] != nil {
		t.units[namespace].asked = now
		return t.units[namespace], nil
	}
	if !q.declared {
		if err := c.admit(namespace); err != nil {
			return nil, err
		}
	}
	if t == nil {
		t = newTopic(q, c.backends[q.Backend])
		c.topics[q.key()] = t
		c.metrics.declare(q)
		c.start(t)
	}
	u := &unit{State: State{Table: t.Empty}, topic: t, namespace: namespace, asked: now, first: make(chan struct{})}
	if q.Past {
		u.past = patience
	}
	t.units[namespace] = u
	select {
	case t.wake <- struct{}{}:
	default: // already woken
	}
	return u, nil
}

// admit returns an error if a namespace has as many questions of Watch as it may have. The
// caller holds mu.
func (c *Cache) admit(namespace string) error {
	has := 0
	for u := range c.units() {
		if u.namespace == namespace && !u.topic.declared {
			has++
		}
	}
	if has < c.opts.MaxQuestions {
		return nil
	}
	return fmt.Errorf("%w: namespace %q has %d; ask fewer different ones, or raise maxQuestions", ErrTooManyQuestions, namespace, has)
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// ErrUnknownRule: no rule of that name is declared.
var ErrUnknownRule = errors.New("unknown rule")

// Cache keeps the answer to each question fresh. Its methods are safe for
// concurrent use.
type Cache struct {
	metrics *metrics
	log     *slog.Logger
	// answered is set by the first good answer and never reset.
	answered atomic.Bool
	plan     atomic.Pointer[plan]
	// lock serializes the reading of answers: large ones in parallel would
	// leave no processor to the requests.
	lock    sync.Mutex
	scratch signal.Scratch // guarded by lock

	mu      sync.RWMutex
	asked   map[key]*entry  // Watch's
	ctx     context.Context // of Run; nil before
	closed  bool            // Run has ended
	running sync.WaitGroup
}

// New returns a cache for a setup. It sends no query before Run.
func New(s Setup, reg Registerer, log *slog.Logger) (*Cache, error) {
	c := &Cache{log: log, asked: map[key]*entry{}}
	c.plan.Store(&plan{})
	m, err := newMetrics(reg, c)
	if err != nil {
		return nil, fmt.Errorf("registering cache metrics: %w", err)
	}
	c.metrics = m
	return c, c.Apply(s)
}

// Run refreshes the answers until ctx ends. All rules start active, so that the
// first requests after a restart do not wait.
func (c *Cache) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, e := range c.plan.Load().rules {
		c.start(e)
	}
	for _, e := range c.asked {
		c.start(e)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// start begins to refresh e, if the cache runs. The caller holds mu.
func (c *Cache) start(e *entry) {
	if c.ctx == nil || c.closed {
		return
	}
	e.ask(time.Now())
	var ctx context.Context
	ctx, e.stop = context.WithCancel(c.ctx)
	c.running.Go(func() { c.keep(ctx, e) })
}

// Ready returns nil once Prometheus has answered any query, and stays nil:
// later failures are part of each answer.
func (c *Cache) Ready() error {
	if c.answered.Load() {
		return nil
	}
	for _, e := range c.plan.Load().rules {
		if err := e.failure(); err != nil {
			return fmt.Errorf("no rule has data yet: %w", err)
		}
	}
	return errors.New("no rule has data yet")
}

// View is what the cache knows about a rule.
type View struct {
	Table *signal.Table
	// Failure of the last query, if it failed. The table's values stay usable
	// until they are too old; the failure says why they are not refreshed.
	Failure error
}

// View returns what is known about a rule. Only the first request for an idle
// rule waits, for at most FirstWait. The error is ErrUnknownRule or the
// context's.
func (c *Cache) View(ctx context.Context, rule string) (View, error) {
	p := c.plan.Load()
	e, ok := p.rules[rule]
	if !ok {
		return View{}, fmt.Errorf("%w %q", ErrUnknownRule, rule)
	}
	first, _ := e.ask(time.Now())
	s, err := await(ctx, e, first, p.opts.FirstWait)
	table, _ := s.Value.(*signal.Table)
	if table == nil {
		table = e.empty
	}
	return View{table, s.Failure}, err
}

// Watch returns what is known about q and keeps it fresh until IdleAfter has
// passed without another Watch of it. The first Watch waits for the
// answer, for at most FirstWait. The error is ErrTooManyQuestions or the
// context's; a query that failed is the State's Failure.
func (c *Cache) Watch(ctx context.Context, q Question) (State, error) {
	if q.Backend == "" {
		q.Backend = DefaultBackend
	}
	opts := c.plan.Load().opts
	c.mu.RLock()
	e := c.asked[q.key()]
	c.mu.RUnlock()
	now := time.Now()
	if e != nil {
		if first, ok := e.ask(now); ok {
			return await(ctx, e, first, opts.FirstWait)
		}
	}
	e, err := c.entry(q, opts)
	if err != nil {
		return State{}, err
	}
	first, _ := e.ask(now)
	return await(ctx, e, first, opts.FirstWait)
}

// entry returns the question's entry, made if needed.
func (c *Cache) entry(q Question, opts Options) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := q.key()
	if e := c.asked[k]; e != nil {
		if _, ok := e.ask(time.Now()); ok {
			return e, nil
		}
		delete(c.asked, k)
	}
	if len(c.asked) >= opts.MaxQuestions {
		return nil, fmt.Errorf("%w: %d are kept fresh; raise maxQuestions or ask fewer different ones", ErrTooManyQuestions, len(c.asked))
	}
	e := newEntry(q, false)
	c.asked[k] = e
	c.metrics.declare(q)
	c.start(e)
	return e, nil
}

func await(ctx context.Context, e *entry, first <-chan struct{}, atMost time.Duration) (State, error) {
	if first == nil {
		return e.state(), nil
	}
	wait := time.NewTimer(atMost)
	defer wait.Stop()
	select {
	case <-first:
		return e.state(), nil
	case <-wait.C:
		s := e.state()
		s.Failure = fmt.Errorf("no answer from Prometheus within %s", atMost)
		return s, nil
	case <-ctx.Done():
		return State{}, ctx.Err()
	}
}

// Has reports whether a rule of that name is in use.
func (c *Cache) Has(rule string) bool { return c.plan.Load().rules[rule] != nil }

// Rules returns the declared rules, by name.
func (c *Cache) Rules() []signal.Rule { return slices.Clone(c.plan.Load().sorted) }

package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// ErrUnknownRule: no rule of that name is declared.
var ErrUnknownRule = errors.New("unknown rule")

// Cache keeps the answers to questions fresh, in the namespaces from which requests come
// come. Its methods are safe for concurrent use.
type Cache struct {
	metrics *metrics
	log     *slog.Logger
	plan    *plan

	mu      sync.RWMutex
	asked   map[key]*topic  // Watch's
	ctx     context.Context // of Run; nil before
	closed  bool            // Run has ended
	running sync.WaitGroup
}

// New returns a cache for a setup. It sends no query before Run.
func New(s Setup, reg Registerer, log *slog.Logger) (*Cache, error) {
	p, err := prepare(s)
	if err != nil {
		return nil, err
	}
	c := &Cache{log: log, asked: map[key]*topic{}, plan: p}
	if c.metrics, err = newMetrics(reg, c); err != nil {
		return nil, fmt.Errorf("registering cache metrics: %w", err)
	}
	for _, t := range p.rules {
		c.metrics.declare(t.Question)
	}
	return c, nil
}

// Run refreshes the answers until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, t := range c.plan.rules {
		c.start(t)
	}
	for _, t := range c.asked {
		c.start(t)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// start begins to refresh t, if the cache runs. The caller holds mu.
func (c *Cache) start(t *topic) {
	if c.ctx != nil && !c.closed {
		c.running.Go(func() { c.keep(c.ctx, t) })
	}
}

// View is what the cache knows about a rule in a namespace.
type View struct {
	Table *signal.Table
	// Failure of the last query, if it failed. The table's values stay usable
	// until they are too old; the failure says why they are not refreshed.
	Failure error
}

// View returns what is known about a rule in a namespace. Only the first request
// there waits, for at most FirstWait. The error is ErrUnknownRule,
// ErrTooManyQuestions or the context's.
func (c *Cache) View(ctx context.Context, rule, namespace string) (View, error) {
	p := c.plan
	t, ok := p.rules[rule]
	if !ok {
		return View{}, fmt.Errorf("%w %q", ErrUnknownRule, rule)
	}
	s, err := c.await(ctx, t, namespace, p.opts.FirstWait)
	table, _ := s.Value.(*signal.Table)
	if table == nil {
		table = t.empty
	}
	return View{table, s.Failure}, err
}

// Watch returns what is known about q in a namespace and keeps it fresh until
// IdleAfter has passed without another Watch. The first Watch waits for the
// answer, for at most FirstWait. The error is ErrTooManyQuestions or the
// context's; a query that failed is the State's Failure.
func (c *Cache) Watch(ctx context.Context, q Question, namespace string) (State, error) {
	if q.Backend == "" {
		q.Backend = DefaultBackend
	}
	opts := c.plan.opts
	c.mu.RLock()
	t := c.asked[q.key()]
	c.mu.RUnlock()
	if t == nil || !t.has(namespace) {
		var err error
		if t, err = c.admit(q, namespace, opts.MaxQuestions); err != nil {
			return State{}, err
		}
	}
	return c.await(ctx, t, namespace, opts.FirstWait)
}

// admit returns the question's topic, made if needed, once there is room for the
// namespace: each has its share, and where all are taken the namespace with the
// most gives up the one that it asked longest ago.
func (c *Cache) admit(q Question, namespace string, most int) (*topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shares, total := map[string]int{}, 0
	for _, t := range c.asked {
		for _, n := range t.namespaces() {
			shares[n]++
			total++
		}
	}
	if share := max(1, most/10); shares[namespace] >= share {
		return nil, fmt.Errorf("%w: namespace %q has %d, its share; ask fewer different ones", ErrTooManyQuestions, namespace, share)
	}
	if total >= most {
		greediest := namespace
		for n, count := range shares {
			if count > shares[greediest] || count == shares[greediest] && n < greediest {
				greediest = n
			}
		}
		if shares[greediest] <= shares[namespace]+1 {
			return nil, fmt.Errorf("%w: %d are kept fresh, of which no namespace has more than %d; raise maxQuestions", ErrTooManyQuestions, total, shares[greediest])
		}
		c.evict(greediest)
	}
	t := c.asked[q.key()]
	if t == nil || t.ended() {
		t = newTopic(q, c.plan.backends[q.Backend].width())
		c.asked[q.key()] = t
		c.metrics.declare(q)
		c.start(t)
	}
	return t, nil
}

// evict forgets the question that a namespace asked longest ago. The caller holds
// mu.
func (c *Cache) evict(namespace string) {
	var oldest *topic
	var asked time.Time
	for _, t := range c.asked {
		if at, ok := t.askedIn(namespace); ok && (oldest == nil || at.Before(asked)) {
			oldest, asked = t, at
		}
	}
	if oldest != nil {
		oldest.mu.Lock()
		defer oldest.mu.Unlock()
		if u := oldest.units[namespace]; u != nil {
			u.ended(ErrTooManyQuestions)
			delete(oldest.units, namespace)
		}
	}
}

func (t *topic) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

func (t *topic) has(namespace string) bool {
	_, ok := t.askedIn(namespace)
	return ok
}

func (t *topic) askedIn(namespace string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.units[namespace]
	if u == nil || t.over {
		return time.Time{}, false
	}
	return u.asked, true
}

func (t *topic) namespaces() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.units {
		all = append(all, n)
	}
	return all
}

func (c *Cache) await(ctx context.Context, t *topic, namespace string, atMost time.Duration) (State, error) {
	u, first := t.ask(namespace, time.Now())
	if u == nil {
		return State{Failure: errIdle}, nil
	}
	if first == nil {
		return t.state(u), nil
	}
	wait := time.NewTimer(atMost)
	defer wait.Stop()
	select {
	case <-first:
		return t.state(u), nil
	case <-wait.C:
		s := t.state(u)
		s.Failure = fmt.Errorf("no answer from Prometheus within %s", atMost)
		return s, nil
	case <-ctx.Done():
		return State{}, ctx.Err()
	}
}

// Has reports whether a rule of that name is in use.
func (c *Cache) Has(rule string) bool { return c.plan.rules[rule] != nil }

// Rules returns the declared rules, by name.
func (c *Cache) Rules() []signal.Rule { return slices.Clone(c.plan.sorted) }

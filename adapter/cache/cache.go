package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// ErrUnknownRule: no rule of that name is declared.
var ErrUnknownRule = errors.New("unknown rule")

// Cache keeps the answers to questions fresh, in the namespaces from which requests
// come. Its methods are safe for concurrent use.
type Cache struct {
	opts     Options
	backends map[string]*server
	rules    map[string]*topic
	sorted   []signal.Rule // by name
	metrics  *metrics
	log      *slog.Logger

	mu      sync.RWMutex
	asked   map[key]*topic  // Watch's
	ctx     context.Context // of Run; nil before
	closed  bool            // Run has ended
	running sync.WaitGroup
}

// New returns a cache for a setup, in which names are unique and each rule's backend is. It
// sends no query before Run.
func New(s Setup, reg prometheus.Registerer, log *slog.Logger) *Cache {
	c := &Cache{opts: s.Options.withDefaults(), backends: map[string]*server{}, rules: map[string]*topic{}, asked: map[key]*topic{}, log: log}
	slots := max(1, s.Options.Concurrency)
	for _, b := range s.Backends {
		c.backends[b.Name] = &server{Backend: b, shared: make(chan struct{}, slots), own: make(chan struct{}, slots)}
	}
	for _, r := range s.Rules {
		r.Backend = cmp.Or(r.Backend, DefaultBackend)
		t := newTopic(forRule(r), c.backends[r.Backend].width())
		t.empty = signal.NewTable(r)
		c.rules[r.Name] = t
		c.sorted = append(c.sorted, r)
	}
	slices.SortFunc(c.sorted, func(a, b signal.Rule) int { return strings.Compare(a.Name, b.Name) })
	c.metrics = newMetrics(reg, c)
	for _, t := range c.rules {
		c.metrics.declare(t.Question)
	}
	return c
}

// Run refreshes the answers until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, t := range c.rules {
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
	t, ok := c.rules[rule]
	if !ok {
		return View{}, fmt.Errorf("%w %q", ErrUnknownRule, rule)
	}
	s, err := c.await(ctx, t, namespace)
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
	q.Backend = cmp.Or(q.Backend, DefaultBackend)
	t, err := c.admit(q, namespace, c.opts.MaxQuestions)
	if err != nil {
		return State{}, err
	}
	return c.await(ctx, t, namespace)
}

// admit returns the question's topic, made if needed, once there is room for the
// namespace: each has its share, and where all are taken the namespace with the
// most gives up the one that it asked longest ago.
func (c *Cache) admit(q Question, namespace string, most int) (*topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.asked[q.key()]
	if t != nil && t.has(namespace) {
		return t, nil
	}
	shares, total := map[string]int{}, 0
	for _, t := range c.asked {
		t.mu.Lock()
		for n := range t.units {
			shares[n]++
			total++
		}
		t.mu.Unlock()
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
	if t == nil {
		t = newTopic(q, c.backends[q.Backend].width())
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
		t.mu.Lock()
		if u := t.units[namespace]; u != nil && (oldest == nil || u.asked.Before(asked)) {
			oldest, asked = t, u.asked
		}
		t.mu.Unlock()
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

func (t *topic) has(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over && t.units[namespace] != nil
}

func (c *Cache) await(ctx context.Context, t *topic, namespace string) (State, error) {
	u, first := t.ask(namespace, time.Now())
	if u == nil {
		return State{Failure: errIdle}, nil
	}
	if first == nil {
		return t.state(u), nil
	}
	wait := time.NewTimer(c.opts.FirstWait)
	defer wait.Stop()
	select {
	case <-first:
		return t.state(u), nil
	case <-wait.C:
		s := t.state(u)
		s.Failure = fmt.Errorf("no answer from Prometheus within %s", c.opts.FirstWait)
		return s, nil
	case <-ctx.Done():
		return State{}, ctx.Err()
	}
}

// Has reports whether a rule of that name is in use.
func (c *Cache) Has(rule string) bool { return c.rules[rule] != nil }

// Rules returns the declared rules, by name.
func (c *Cache) Rules() []signal.Rule { return slices.Clone(c.sorted) }

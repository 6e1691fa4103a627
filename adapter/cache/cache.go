package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier is the part of *prom.Client the cache needs.
type Querier interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
}

// Options bound what the cache asks and how long a request may wait.
type Options struct {
	// Interval between two queries of one active rule, give or take a tenth.
	Interval time.Duration
	// IdleAfter is how long a rule is queried after the last request for it.
	IdleAfter time.Duration
	// FirstWait bounds how long the first request for an idle rule waits.
	FirstWait time.Duration
	// Concurrency bounds the queries under way at once.
	Concurrency int
}

// ErrUnknownRule: nobody declared such a rule.
var ErrUnknownRule = errors.New("unknown rule")

// Cache holds one table per rule. Its methods are safe for concurrent use.
type Cache struct {
	opts    Options
	querier Querier
	metrics *metrics
	log     *slog.Logger
	entries map[string]*entry
	slots   chan struct{}
	// answered is set by the first good answer and never taken back.
	answered atomic.Bool
}

// New returns a cache for the rules. Nothing is asked before Run.
func New(q Querier, rules []signal.Rule, opts Options, reg Registerer, log *slog.Logger) (*Cache, error) {
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("registering cache metrics: %w", err)
	}
	c := &Cache{
		opts: opts, querier: q, metrics: m, log: log,
		entries: map[string]*entry{}, slots: make(chan struct{}, max(1, opts.Concurrency)),
	}
	for _, r := range rules {
		if _, twice := c.entries[r.Name]; twice {
			return nil, fmt.Errorf("rule %s is declared twice", r.Name)
		}
		c.entries[r.Name] = newEntry(r)
		m.declare(r.Name)
	}
	if err := reg.Register(newAges(c.entries)); err != nil {
		return nil, fmt.Errorf("registering rule ages: %w", err)
	}
	return c, nil
}

// Run keeps the tables fresh until ctx ends. All rules start out active, so
// that a restart does not make the first requests wait.
func (c *Cache) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, e := range c.entries {
		e.ask(time.Now())
		running.Go(func() { c.keep(ctx, e) })
	}
	running.Wait()
}

// Ready returns nil once Prometheus has answered any rule's query, and stays
// so: later failures are told with each answer.
func (c *Cache) Ready() error {
	if c.answered.Load() {
		return nil
	}
	for _, e := range c.entries {
		if err := e.failure(); err != nil {
			return fmt.Errorf("no rule has data yet: %w", err)
		}
	}
	return errors.New("no rule has data yet")
}

// View is what the cache can say about a rule.
type View struct {
	Table *signal.Table
	// Failure of the last query, if it failed. The table's values stay usable
	// until they are too old; the failure says why they get there.
	Failure error
}

// View returns what is known about a rule. Only the first request after
// idleness waits, for at most FirstWait. The error is ErrUnknownRule or the
// context's.
func (c *Cache) View(ctx context.Context, rule string) (View, error) {
	e, ok := c.entries[rule]
	if !ok {
		return View{}, fmt.Errorf("%w %q", ErrUnknownRule, rule)
	}
	first := e.ask(time.Now())
	if first == nil {
		return View{e.table.Load(), e.failure()}, nil
	}
	wait := time.NewTimer(c.opts.FirstWait)
	defer wait.Stop()
	select {
	case <-first:
		return View{e.table.Load(), e.failure()}, nil
	case <-wait.C:
		return View{e.table.Load(), fmt.Errorf("no answer from Prometheus within %s", c.opts.FirstWait)}, nil
	case <-ctx.Done():
		return View{}, ctx.Err()
	}
}

// Rules returns the declared rules, by name.
func (c *Cache) Rules() []signal.Rule {
	rules := make([]signal.Rule, 0, len(c.entries))
	for _, e := range c.entries {
		rules = append(rules, e.rule)
	}
	slices.SortFunc(rules, func(a, b signal.Rule) int { return strings.Compare(a.Name, b.Name) })
	return rules
}

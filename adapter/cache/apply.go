package cache

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

var (
	errReplaced     = errors.New("the rule or its backend has just been replaced")
	errNoBackend    = errors.New("no such backend is configured")
	errRepeatedName = errors.New("is declared twice")
)

// Apply replaces the setup while requests go on. Unchanged rules keep their
// tables; removed ones are forgotten. On error nothing changes.
func (c *Cache) Apply(s Setup) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.plan.Load()
	next, err := prepare(s, old, &c.scratch)
	if err != nil {
		return err
	}
	for name, e := range next.rules {
		if old.rules[name] != e {
			c.metrics.declare(e.Question)
			c.start(e)
		}
	}
	c.plan.Store(next)
	for name, e := range old.rules {
		if next.rules[name] != e {
			e.discard()
		}
		if next.rules[name] == nil {
			c.metrics.forget(name)
		}
	}
	for k, e := range c.asked {
		if before, after := old.backends[k.backend], next.backends[k.backend]; before != nil && (after == nil || after.Version != before.Version) {
			delete(c.asked, k)
			e.discard()
		}
	}
	return nil
}

// discard ends the entry. The caller holds Cache.mu.
func (e *entry) discard() {
	if e.stop != nil {
		e.stop()
	}
	e.drop(errReplaced)
}

// prepare makes a plan that shares unchanged entries with the old one.
func prepare(s Setup, old *plan, scratch *signal.Scratch) (*plan, error) {
	p := &plan{opts: s.Options, backends: map[string]*server{}, rules: map[string]*entry{}}
	if p.opts.MaxQuestions == 0 {
		p.opts.MaxQuestions = DefaultMaxQuestions
	}
	for _, b := range s.Backends {
		if p.backends[b.Name] != nil {
			return nil, fmt.Errorf("backend %s %w", b.Name, errRepeatedName)
		}
		p.backends[b.Name] = inUse(b, old.backends[b.Name], max(1, s.Options.Concurrency))
	}
	for _, r := range s.Rules {
		if r.Backend == "" {
			r.Backend = DefaultBackend
		}
		switch {
		case p.rules[r.Name] != nil:
			return nil, fmt.Errorf("rule %s %w", r.Name, errRepeatedName)
		case p.backends[r.Backend] == nil:
			return nil, fmt.Errorf("rule %s: backend %q: %w", r.Name, r.Backend, errNoBackend)
		}
		q := forRule(r, scratch)
		q.Version += p.backends[r.Backend].Version
		e := old.rules[r.Name]
		if e == nil || e.key() != q.key() {
			e = newEntry(q, true)
			e.empty = signal.NewTable(r.Rule)
		}
		p.rules[r.Name] = e
		p.sorted = append(p.sorted, r.Rule)
	}
	slices.SortFunc(p.sorted, func(a, b signal.Rule) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}

// inUse keeps the slots of the previous backend, so that queries in flight
// count.
func inUse(b Backend, before *server, concurrency int) *server {
	if before != nil && cap(before.slots) == concurrency {
		return &server{Backend: b, slots: before.slots}
	}
	return &server{Backend: b, slots: make(chan struct{}, concurrency)}
}

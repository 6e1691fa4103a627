package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// keep refreshes one topic while it is requested: a namespace at once when it is
// new, and all of them each interval.
func (c *Cache) keep(ctx context.Context, t *topic) {
	tick := time.NewTimer(time.Hour)
	defer tick.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	for active := false; ; {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-tick.C:
			active, due = false, true
		}
		if !t.forget(time.Now(), c.opts.IdleAfter) {
			if c.leave(t) {
				return
			}
			continue
		}
		if !active {
			active = true
			// Jitter spreads the queries of replicas and questions over time.
			tick.Reset(time.Duration(float64(c.opts.Interval) * (0.9 + 0.2*rand.Float64())))
		}
		for _, batch := range t.batches(time.Now(), due) {
			asking.Go(func() { c.refresh(ctx, t, batch) })
		}
	}
}

// leave removes an idle question, and reports whether it was one of Watch.
func (c *Cache) leave(t *topic) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := t.key()
	if c.asked[k] != t {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.units) > 0 { // a request came in between
		return false
	}
	delete(c.asked, k)
	t.over = true
	return true
}

// refresh asks about some namespaces. If that fails, and the same query about no
// namespace does not, the series of one of them are at fault: they are divided
// until it stands alone. A query that was not taken says nothing of them, and a server that
// is too busy for some is not sent more.
func (c *Cache) refresh(ctx context.Context, t *topic, units []*unit) {
	err := c.attempt(ctx, t, units)
	if err == nil || ctx.Err() != nil {
		return
	}
	began := time.Now()
	blameless := errors.Is(err, prom.ErrRefused) || !units[0].alone && c.control(ctx, t, units[0].namespace, !units[0].begun) != nil
	// A server that is slow about nothing is slow about all of them. Dividing would give
	// it more to do now; fewer at once from the next time on does not.
	if errors.Is(err, context.DeadlineExceeded) && !units[0].alone && time.Since(began) > c.opts.Timeout/slowness {
		blameless = true
		t.narrow((len(units)+1)/2, time.Now())
	}
	if len(units) > 1 && !blameless {
		half := (len(units) + 1) / 2
		var asking sync.WaitGroup
		asking.Go(func() { c.refresh(ctx, t, units[:half]) })
		c.refresh(ctx, t, units[half:])
		asking.Wait()
		if !t.anyAlone(units) {
			t.narrow(half, time.Now())
		}
		return
	}
	if len(units) == 1 && !blameless {
		err = c.blame(ctx, t, units[0], err)
	}
	for _, u := range units {
		c.fail(t, u, err, !blameless)
	}
}

func (t *topic) anyAlone(units []*unit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(units, func(u *unit) bool { return u.alone })
}

// slowness: a control that takes more than such a part of the timeout is slow.
const slowness = 8

// nowhere is a name that no namespace has.
const nowhere = "-"

// control sends a topic's query about no namespace, twice: of two servers behind one
// address, one may be broken. Its error is not the fault of any namespace's series.
func (c *Cache) control(ctx context.Context, t *topic, namespace string, past bool) error {
	queries := []string{"vector(0)"} // where a query is one namespace's own
	if t.Namespace != nil {
		queries = t.Queries(false, []string{nowhere})
		if past {
			queries = append(t.Queries(true, []string{nowhere}), queries...)
		}
	}
	_, err := c.queries(ctx, t, slices.Repeat(queries, 2), []string{namespace}, false)
	return err
}

// attempt asks about some namespaces, all begun or all new, and stores each
// one's answer. An error concerns all of them. Namespaces whose past cannot be had go without
// if the present can, twice.
func (c *Cache) attempt(ctx context.Context, t *topic, units []*unit) error {
	names, alone := make([]string, len(units)), units[0].alone
	for i, u := range units {
		names[i] = u.namespace
	}
	var past answer
	var lost error
	first := !units[0].begun
	if first {
		past, lost = c.queries(ctx, t, t.Queries(true, names), names, alone)
	}
	now, err := c.queries(ctx, t, t.Queries(false, names), names, alone)
	if err != nil {
		return err
	}
	if lost != nil {
		if !t.patient(units) {
			return fmt.Errorf("asking about the past: %w", lost)
		}
		c.log.Warn("history cannot be read: pods that stopped reporting before now are unknown", slog.String("rule", t.Rule),
			slog.Int("namespaces", len(units)), slog.String("namespace", names[0]), slog.Duration("past", signal.Forget), slog.Any("error", lost))
		first = false
	}
	c.distribute(t, units, first, past, now, names)
	return nil
}

// patient counts another query of the past that failed, and reports whether that was enough.
func (t *topic) patient(units []*unit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	enough := true
	for _, u := range units {
		u.tries++
		enough = enough && u.tries >= patience
	}
	return enough
}

// split divides an answer by namespace.
func (t *topic) split(v prom.Vector, names []string) map[string]prom.Vector {
	if len(names) == 1 && t.Namespace == nil {
		return map[string]prom.Vector{names[0]: v}
	}
	all := map[string]prom.Vector{}
	for _, s := range v {
		switch n := t.Namespace(s.Labels); n {
		case "":
		case Everywhere:
			for _, each := range names {
				all[each] = append(all[each], s)
			}
		default:
			all[n] = append(all[n], s)
		}
	}
	return all
}

// errRepeated is the failure of an answer that was evaluated at the same moment as the one
// before: it is that one, and its values are older than they seem.
var errRepeated = errors.New("a cache between the adapter and the server repeats an answer")

// distribute gives each namespace its part of an answer, and at first of that about the past.
// One that has more than its budget gets none.
func (c *Cache) distribute(t *topic, units []*unit, first bool, past, now answer, names []string) {
	old, present := t.split(past.vector, names), t.split(now.vector, names)
	for _, u := range units {
		n := u.namespace
		t.mu.Lock()
		repeated := !u.evaluated.IsZero() && now.Evaluated.Equal(u.evaluated)
		t.mu.Unlock()
		if repeated { // not logged: a cache of seconds repeats every second answer
			t.failed(u, errRepeated, false, time.Now(), c.opts.Interval)
			continue
		}
		if size := max(len(old[n]), len(present[n])); size > c.opts.Budget.Series {
			c.fail(t, u, fmt.Errorf("%w: namespace %s has %d of %d allowed", prom.ErrTooLarge, n, size, c.opts.Budget.Series), true)
			continue
		}
		if err := c.store(t, u, first, answer{old[n], past.Reading}, answer{present[n], now.Reading}); err != nil {
			c.fail(t, u, err, true)
		}
	}
}

// store replaces a namespace's state with the one built from an answer. A panic
// becomes an error: an unforeseen answer must break its own rule only.
func (c *Cache) store(t *topic, u *unit, first bool, past, now answer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading the answer: %v", p)
			c.log.Error("panic while reading an answer: this is a bug", slog.String("rule", t.Rule),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	previous := t.state(u)
	value := previous.Value
	if first {
		value, _, _ = t.Build(value, past.vector, past.Reading)
	}
	next, series, dropped := t.Build(value, now.vector, now.Reading)
	c.metrics.read(t.Rule, dropped)
	t.stored(u, next, series, dropped, now.Evaluated, time.Now())
	c.logChange(t, u.namespace, previous.Failure, nil)
	return nil
}

func (c *Cache) fail(t *topic, u *unit, err error, guilty bool) {
	before := t.state(u).Failure
	t.failed(u, err, guilty, time.Now(), c.opts.Interval)
	c.logChange(t, u.namespace, before, err)
}

// answer is what several queries returned together.
type answer struct {
	vector prom.Vector
	signal.Reading
}

// queries sends queries about some namespaces, one after the other. The time of
// evaluation is the start, not the end: a slow answer is older, never younger.
func (c *Cache) queries(ctx context.Context, t *topic, queries, namespaces []string, alone bool) (answer, error) {
	b := c.backends[t.Backend]
	slots, timeout, most := b.shared, c.opts.Timeout/4, c.opts.Budget
	switch {
	case alone:
		slots, timeout = b.own, c.opts.Timeout
	case len(namespaces) > 1:
		most = prom.Limits{Series: 2 * most.Series, Bytes: 2 * most.Bytes}
	}
	if b.NamespaceParameter != "" {
		most.Parameters = map[string]string{b.NamespaceParameter: namespaces[0]}
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	start := time.Now()
	all := answer{Reading: signal.Reading{Evaluated: start, Now: start}}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	known := false // what the server's clock says
	for _, query := range queries {
		began := time.Now()
		v, err := b.Querier.QueryWithin(limited, query, time.Time{}, most)
		if ctx.Err() != nil {
			return answer{}, ctx.Err() // shutting down: not a failure of Prometheus
		}
		c.metrics.queried(t.Question, time.Since(began), result(err))
		if err != nil {
			return answer{}, err
		}
		if len(v) > 0 && (!known || v[0].Time.After(all.Evaluated)) {
			all.Evaluated, known = v[0].Time, true
		}
		most.Series = max(1, most.Series-len(v))
		all.vector = append(all.vector, v...)
	}
	return all, nil
}

// blame adds to an error of one namespace the name of the series at fault, if one
// can be found. It looks once for each error.
func (c *Cache) blame(ctx context.Context, t *topic, u *unit, err error) error {
	if t.Suspects == nil || errors.Is(err, prom.ErrUnavailable) {
		return err
	}
	t.mu.Lock()
	known, culprit := u.blamed == err.Error(), u.culprit
	t.mu.Unlock()
	if !known {
		culprit = c.find(ctx, t, u.namespace)
		t.mu.Lock()
		u.blamed, u.culprit = err.Error(), culprit
		t.mu.Unlock()
	}
	if culprit == "" || strings.Contains(err.Error(), culprit) {
		return err
	}
	return fmt.Errorf("%w; the series is %s of namespace %s", err, culprit, u.namespace)
}

// find returns the name of the first series that cannot be queried by itself, or
// of that with the most elements.
func (c *Cache) find(ctx context.Context, t *topic, namespace string) (culprit string) {
	names, queries := t.Suspects(namespace)
	most := 0
	for i, query := range queries {
		a, err := c.queries(ctx, t, []string{query}, []string{namespace}, true)
		switch {
		case errors.Is(err, prom.ErrUnavailable) || ctx.Err() != nil:
			return ""
		case err != nil:
			return names[i]
		case len(a.vector) > most:
			most, culprit = len(a.vector), names[i]
		}
	}
	return culprit
}

// logChange logs changes only: an unavailable Prometheus must not fill the log.
func (c *Cache) logChange(t *topic, namespace string, before, now error) {
	about := []any{slog.String("rule", t.Rule), slog.String("backend", t.Backend), slog.String("namespace", namespace)}
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		c.log.Warn("query failed", append(about, slog.Any("error", now))...)
	case now == nil && before != nil:
		c.log.Info("query answered again", about...)
	}
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, prom.ErrPartial):
		return "partial"
	}
	return "error"
}

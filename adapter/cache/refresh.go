package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// keep refreshes one topic until it has no namespace left: a new namespace at once, all of
// them each interval.
func (c *Cache) keep(ctx context.Context, t *topic) {
	var asking sync.WaitGroup
	defer asking.Wait()
	var tick <-chan time.Time // of the next refresh of all
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-tick:
			tick, due = nil, true
		}
		var batches [][]*unit
		left := 0
		c.locked(func() {
			now := time.Now()
			maps.DeleteFunc(t.units, func(_ string, u *unit) bool { return !u.inFlight && now.Sub(u.asked) > c.opts.IdleAfter })
			if left = len(t.units); left == 0 {
				delete(c.topics, t.key())
			}
			batches = t.batches(now, due)
		})
		if left == 0 {
			return
		}
		if tick == nil {
			// Jitter spreads the queries of replicas and questions over time.
			tick = time.After(time.Duration(float64(c.opts.Interval) * (0.9 + 0.2*rand.Float64())))
		}
		for _, batch := range batches {
			asking.Go(func() { c.refresh(ctx, batch) })
		}
	}
}

// refresh asks about some namespaces. If the query fails, and the same query about no
// namespace succeeds, one of the namespaces is at fault: refresh halves them until that one
// is alone. After [prom.ErrRefused], which says nothing about the namespaces, it sends no
// further query: the server may be too busy.
func (c *Cache) refresh(ctx context.Context, units []*unit) {
	t, alone, half := units[0].topic, units[0].alone, (len(units)+1)/2
	err := c.attempt(ctx, units)
	if err == nil || ctx.Err() != nil {
		return
	}
	began := time.Now()
	blameless := errors.Is(err, prom.ErrRefused) || !alone && c.control(ctx, units[0]) != nil
	// A server that is slow about no namespace is slow about all of them. Dividing them
	// now would add to its work, so only the next queries are about fewer.
	if errors.Is(err, context.DeadlineExceeded) && !alone && time.Since(began) > c.opts.Timeout/slowness {
		blameless = true
		c.locked(func() { t.narrow(half) })
	}
	switch {
	case blameless:
	case len(units) > 1:
		var asking sync.WaitGroup
		asking.Go(func() { c.refresh(ctx, units[:half]) })
		c.refresh(ctx, units[half:])
		asking.Wait()
		c.locked(func() {
			if !slices.ContainsFunc(units, func(u *unit) bool { return u.alone }) {
				t.narrow(half) // they are too much together
			}
		})
		return
	default:
		err = c.blame(ctx, units[0], err)
	}
	for _, u := range units {
		c.failed(u, err, !blameless)
	}
}

// slowness: a control that takes more than this part of the timeout (an eighth)
// is slow.
const slowness = 8

// nowhere is a name that no namespace has.
const nowhere = "-"

// control sends the query of a batch, which begins with u, but about no namespace. It sends
// it twice, since one of two servers behind one address may be broken. If control fails, no
// namespace is at fault.
func (c *Cache) control(ctx context.Context, u *unit) error {
	queries := []string{"vector(0)"} // for a question whose query is about one namespace only
	if t := u.topic; t.Namespace != nil {
		queries = t.Queries(false, []string{nowhere})
		if u.past > 0 {
			queries = append(t.Queries(true, []string{nowhere}), queries...)
		}
	}
	_, err := c.send(ctx, u.topic, slices.Repeat(queries, 2), []string{u.namespace}, false)
	return err
}

// attempt asks about some namespaces and stores the answer of each. The past is queried for
// all of them or for none. An error concerns all of them. When the past has failed twice
// while the present was answered, they go without the past.
func (c *Cache) attempt(ctx context.Context, units []*unit) error {
	t, alone := units[0].topic, units[0].alone
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.namespace
	}
	var answers []answer
	var lost error
	if units[0].past > 0 {
		var past answer
		if past, lost = c.send(ctx, t, t.Queries(true, names), names, alone); lost == nil {
			answers = append(answers, past)
		}
	}
	now, err := c.send(ctx, t, t.Queries(false, names), names, alone)
	if err != nil {
		return err
	}
	if lost != nil {
		left := 0
		for _, u := range units {
			u.past--
			left = max(left, u.past)
		}
		if left > 0 {
			return fmt.Errorf("asking about the past: %w", lost)
		}
		c.log.Warn("history cannot be read: pods that stopped reporting before now are unknown", slog.String("rule", t.Rule),
			slog.Int("namespaces", len(units)), slog.String("namespace", names[0]), slog.Duration("past", signal.Forget), slog.Any("error", lost))
	}
	c.distribute(units, names, append(answers, now)...)
	return nil
}

// answer is what several queries returned together.
type answer struct {
	vector prom.Vector
	signal.Reading
}

// send sends queries about some namespaces, one after the other. The time of
// evaluation is the start, not the end: a slow answer is older, never younger.
func (c *Cache) send(ctx context.Context, t *topic, queries, namespaces []string, alone bool) (answer, error) {
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
	known := false // whether Evaluated is on the server's clock
	for _, query := range queries {
		began := time.Now()
		v, err := b.Querier.QueryWithin(limited, query, time.Time{}, most)
		if ctx.Err() != nil {
			return answer{}, ctx.Err() // shutting down: not a failure of Prometheus
		}
		c.metrics.queried(t.Question, time.Since(began), err)
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

// errRepeated is reported for an answer with the evaluation time of the last one. It is that
// answer again, and older than it seems, so it changes nothing: what is known ages, and nothing
// has failed.
var errRepeated = errors.New("a cache between the adapter and the server repeats an answer")

// distribute gives each namespace its part of the answers. The last answer is about the
// present. A namespace whose part is over its budget gets none.
func (c *Cache) distribute(units []*unit, names []string, answers ...answer) {
	parts := make([]map[string]prom.Vector, len(answers))
	for i, a := range answers {
		parts[i] = units[0].topic.split(a.vector, names)
	}
	for _, u := range units {
		own := slices.Clone(answers)
		most := 0
		for i := range own {
			own[i].vector = parts[i][u.namespace]
			most = max(most, len(own[i].vector))
		}
		switch {
		case !u.evaluated.IsZero() && own[len(own)-1].Evaluated.Equal(u.evaluated):
			c.locked(func() { u.ended(cmp.Or(u.Failure, errRepeated)) })
		case most > c.opts.Budget.Series:
			c.failed(u, fmt.Errorf("%w: namespace %s has %d of %d allowed", prom.ErrTooLarge, u.namespace, most, c.opts.Budget.Series), true)
		default:
			c.store(u, own)
		}
	}
}

// split divides an answer by namespace.
func (t *topic) split(v prom.Vector, names []string) map[string]prom.Vector {
	if t.Namespace == nil {
		return map[string]prom.Vector{names[0]: v}
	}
	all := map[string]prom.Vector{}
	for _, s := range v {
		if n := t.Namespace(s.Labels); n != "" {
			all[n] = append(all[n], s)
		}
	}
	return all
}

// store replaces a namespace's state with the one built from its answers. A panic
// becomes a failure: an unforeseen answer must break its own rule only.
func (c *Cache) store(u *unit, answers []answer) {
	t := u.topic
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic while reading an answer: this is a bug", slog.String("rule", t.Rule),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			c.failed(u, fmt.Errorf("reading the answer: %v", p), true)
		}
	}()
	table, dropped := u.Table, map[signal.Reason]int(nil)
	for _, a := range answers {
		if !t.Past {
			table = t.Empty
		}
		table, dropped = table.Read(Samples(a.vector), a.Reading)
	}
	c.metrics.read(t.Rule, dropped)
	var before error
	c.locked(func() {
		before = u.Failure
		now := time.Now()
		u.Table, u.At, u.evaluated, u.dropped = table, now, answers[len(answers)-1].Evaluated, dropped
		u.past, u.failures, u.blamed, u.culprit = 0, 0, "", ""
		if u.good.IsZero() {
			u.good = now
		}
		u.alone = u.alone && now.Sub(u.good) < probation
		u.ended(nil)
	})
	c.logChange(u, before, nil)
}

// failed records a failure. guilty means that the namespace itself is at fault.
func (c *Cache) failed(u *unit, err error, guilty bool) {
	var before error
	c.locked(func() {
		before = u.Failure
		u.good = time.Time{}
		u.alone = u.alone || guilty
		if u.alone {
			u.failures++
			u.due = time.Now().Add(min(c.opts.Interval<<min(u.failures-1, 6), longest))
		}
		u.ended(err)
	})
	c.logChange(u, before, err)
}

// logChange logs changes only: an unavailable Prometheus must not fill the log.
func (c *Cache) logChange(u *unit, before, now error) {
	about := []any{slog.String("rule", u.topic.Rule), slog.String("backend", u.topic.Backend), slog.String("namespace", u.namespace)}
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		c.log.Warn("query failed", append(about, slog.Any("error", now))...)
	case now == nil && before != nil && !errors.Is(before, errRepeated):
		c.log.Info("query answered again", about...)
	}
}

// blame adds to an error of one namespace the name of the series at fault, if one
// can be found. It looks once for each error.
func (c *Cache) blame(ctx context.Context, u *unit, err error) error {
	if u.topic.Suspects == nil || errors.Is(err, prom.ErrUnavailable) {
		return err
	}
	if u.blamed != err.Error() {
		u.blamed, u.culprit = err.Error(), c.find(ctx, u)
	}
	if u.culprit == "" || strings.Contains(err.Error(), u.culprit) {
		return err
	}
	return fmt.Errorf("%w; the series is %s of namespace %s", err, u.culprit, u.namespace)
}

// find returns the name of the first series that cannot be queried by itself. If
// there is none, it returns the series with the most elements.
func (c *Cache) find(ctx context.Context, u *unit) (culprit string) {
	names, queries := u.topic.Suspects(u.namespace)
	most := 0
	for i, query := range queries {
		a, err := c.send(ctx, u.topic, []string{query}, []string{u.namespace}, true)
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

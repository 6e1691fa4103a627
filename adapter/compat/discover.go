package compat

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gpuscale/gpuscale/internal/prom"
)

const (
	// retry is how soon a failed listing is repeated. idle is the least pause after it, in
	// multiples of the time it took the server: a listing that fails for its size takes at most a
	// tenth of the server's time.
	retry, idle = 10 * time.Second, 9
	// listers bounds the listings in flight.
	listers = 4
)

// Lister is the part of *prom.Client that discovery needs.
type Lister interface {
	Series(ctx context.Context, selector string, since time.Time) ([]prom.Family, error)
}

// listing is what Prometheus has for a selector.
type listing struct {
	selector string
	families []prom.Family // of the last time that it answered
	ever     bool          // it has answered
	err      error         // of the last time
	due      time.Time     // the next time
}

// Run lists the series until ctx ends.
func (p *Provider) Run(ctx context.Context) {
	for {
		select {
		case <-time.After(p.relist(ctx)):
		case <-ctx.Done():
			return
		}
	}
}

// relist lists the series of each distinct selector that is due, and returns when to do that again.
func (p *Provider) relist(ctx context.Context) time.Duration {
	now, due := p.now(), []*listing{}
	for _, l := range p.listings {
		if !l.due.After(now) {
			due = append(due, l)
		}
	}
	wait := make([]time.Duration, len(due))
	workqueue.ParallelizeUntil(ctx, listers, len(due), func(i int) { wait[i] = p.list(ctx, due[i]) })
	p.registry.Store(newRegistry(p.file, p.listings, p.Mapper))
	now = p.now() // for all, so that they stay together
	for i, l := range due {
		l.due = now.Add(wait[i])
	}
	next := p.opts.RelistInterval
	for _, l := range p.listings {
		next = min(next, l.due.Sub(now))
	}
	return next
}

// list lists the series of one selector, and returns how long to wait before the next time. A
// failure leaves the previous ones. Only changes are logged: an unavailable Prometheus must not
// fill the log.
func (p *Provider) list(ctx context.Context, l *listing) time.Duration {
	began := p.now()
	families, err := p.Lister.Series(ctx, l.selector, began.Add(-p.opts.SeriesAge))
	which := slog.String("seriesQuery", l.selector)
	switch {
	case ctx.Err() != nil:
		return retry
	case err == nil && l.err != nil:
		p.log.Info("series are listed again", which)
	case err != nil && (l.err == nil || l.err.Error() != err.Error()):
		p.log.Warn("listing series failed, the previous list is still served", which, slog.Any("error", err))
	}
	if l.err = err; err != nil {
		return min(p.opts.RelistInterval, max(retry, idle*p.now().Sub(began)))
	}
	l.families, l.ever = families, true
	return p.opts.RelistInterval
}

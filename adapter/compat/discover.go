package compat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gpuscale/gpuscale/internal/prom"
)

const (
	// retry is how soon a listing that failed is tried again.
	retry = 10 * time.Second
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

// relist lists the series of each distinct selector, and returns when to do that again.
func (p *Provider) relist(ctx context.Context) time.Duration {
	all := slices.Collect(maps.Values(p.listings))
	workqueue.ParallelizeUntil(ctx, listers, len(all), func(i int) { p.list(ctx, all[i]) })
	p.registry.Store(newRegistry(p.file, p.listings, p.Mapper))
	if slices.ContainsFunc(all, func(l *listing) bool { return l.err != nil }) {
		return min(p.opts.RelistInterval, retry)
	}
	return p.opts.RelistInterval
}

// list lists the series of one selector. A failure leaves the previous ones. Only changes
// are logged: an unavailable Prometheus must not fill the log.
func (p *Provider) list(ctx context.Context, l *listing) {
	families, err := p.Lister.Series(ctx, l.selector, time.Now().Add(-p.opts.SeriesAge))
	which := slog.String("seriesQuery", l.selector)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && l.err != nil:
		p.log.Info("series are listed again", which)
	case err != nil && (l.err == nil || l.err.Error() != err.Error()):
		p.log.Warn("listing series failed, the previous list is still served", which, slog.Any("error", err))
	}
	if l.err = err; err == nil {
		l.families, l.ever = families, true
	}
}

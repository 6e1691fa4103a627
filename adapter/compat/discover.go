package compat

import (
	"context"
	"log/slog"
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

// relist lists the series of each distinct selector. One that fails keeps its
// previous series. It returns when to list again.
func (p *Provider) relist(ctx context.Context) time.Duration {
	since := time.Now().Add(-p.opts.SeriesAge)
	var selectors []string
	for _, r := range p.file.good() {
		selectors = append(selectors, r.SeriesQuery)
	}
	slices.Sort(selectors)
	selectors = slices.Compact(selectors)
	found, errs := make([][]prom.Family, len(selectors)), make([]error, len(selectors))
	workqueue.ParallelizeUntil(ctx, listers, len(selectors), func(i int) {
		found[i], errs[i] = p.Lister.Series(ctx, selectors[i], since)
	})
	if ctx.Err() != nil {
		return retry
	}
	listed, failures := map[string][]prom.Family{}, map[string]error{}
	for i, s := range selectors {
		before, ever := p.listed[s]
		if errs[i] != nil {
			failures[s], found[i] = errs[i], before
		}
		if errs[i] == nil || ever {
			listed[s] = found[i]
		}
	}
	p.logChanges(failures)
	p.listed = listed
	p.registry.Store(newRegistry(p.file, listed, failures, p.Mapper))
	if len(failures) > 0 {
		return min(p.opts.RelistInterval, retry)
	}
	return p.opts.RelistInterval
}

// logChanges logs changes only: an unavailable Prometheus must not fill the log.
func (p *Provider) logChanges(failures map[string]error) {
	for s, err := range failures {
		if before := p.failing[s]; before == nil || before.Error() != err.Error() {
			p.log.Warn("listing series failed, the previous list is still served", slog.String("seriesQuery", s), slog.Any("error", err))
		}
	}
	for s := range p.failing {
		if failures[s] == nil {
			p.log.Info("series are listed again", slog.String("seriesQuery", s))
		}
	}
	p.failing = failures
}

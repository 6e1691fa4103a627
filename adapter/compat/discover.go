package compat

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	since := time.Now().Add(-p.opts.SeriesAge.Duration)
	listed, failures := map[string][]prom.Family{}, map[string]error{}
	var mu sync.Mutex
	var running errgroup.Group
	running.SetLimit(listers)
	asked := map[string]bool{}
	for _, r := range p.file.good() {
		s := r.SeriesQuery
		if asked[s] {
			continue
		}
		asked[s] = true
		running.Go(func() error {
			found, err := p.Lister.Series(ctx, s, since)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				listed[s] = found
				return nil
			}
			failures[s] = err
			if before, ever := p.listed[s]; ever {
				listed[s] = before
			}
			return nil
		})
	}
	_ = running.Wait() // failures are in the map
	if ctx.Err() != nil {
		return retry
	}
	p.logChanges(failures)
	p.listed = listed
	p.registry.Store(newRegistry(p.file, listed, failures, p.Mapper))
	if len(failures) > 0 {
		return min(p.opts.RelistInterval.Duration, retry)
	}
	return p.opts.RelistInterval.Duration
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

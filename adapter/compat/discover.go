package compat

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

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
	if p == nil {
		return
	}
	for {
		next := time.NewTimer(p.relist(ctx))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
	}
}

// relist lists the series of each distinct selector. One that fails keeps its
// previous series. It returns when to list again.
func (p *Provider) relist(ctx context.Context) time.Duration {
	f := p.file
	since := time.Now().Add(-p.opts.SeriesAge.Duration)
	var selectors []string
	for _, r := range slices.Concat(f.Custom, f.External) {
		if !slices.Contains(selectors, r.SeriesQuery) {
			selectors = append(selectors, r.SeriesQuery)
		}
	}
	failures := map[string]error{}
	found := make([][]prom.Family, len(selectors))
	errs := make([]error, len(selectors))
	var running sync.WaitGroup
	slots := make(chan struct{}, listers)
	for i, s := range selectors {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i], errs[i] = p.Lister.Series(ctx, s, since)
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return retry
	}
	wait := p.opts.RelistInterval.Duration
	listed := map[string][]prom.Family{}
	for i, s := range selectors {
		if errs[i] == nil {
			listed[s] = found[i]
			continue
		}
		failures[s] = errs[i]
		wait = min(wait, retry)
		if before, ever := p.listed[s]; ever {
			listed[s] = before
		}
	}
	p.logChanges(failures)
	p.listed = listed
	p.registry.Store(newRegistry(f, listed, failures, p.Mapper))
	p.state(failures, len(selectors))
	return wait
}

// state records for Ready whether any series have been listed.
func (p *Provider) state(failures map[string]error, selectors int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = nil
	for s := range failures {
		if _, ever := p.listed[s]; !ever && len(failures) == selectors {
			p.pending = fmt.Errorf("listing the series of %s: %w", s, failures[s])
		}
	}
}

// Ready returns nil once the series of any selector have been listed, and the
// error of the listing until then.
func (p *Provider) Ready() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending
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

var _ Lister = (*prom.Client)(nil)

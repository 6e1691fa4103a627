package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

const (
	// recheck is how often the file is read for changes.
	recheck = 2 * time.Second
	// retry is how soon a listing that failed is tried again.
	retry = 10 * time.Second
	// listers bounds the listings in flight.
	listers = 4
)

// Lister is the part of *prom.Client that discovery needs.
type Lister interface {
	Series(ctx context.Context, selector string, since time.Time) ([]prom.Family, error)
}

// Run lists the series and reloads the file, until ctx ends.
func (p *Provider) Run(ctx context.Context) {
	if p == nil {
		return
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	next := time.Now()
	for {
		if !time.Now().Before(next) {
			next = time.Now().Add(p.relist(ctx))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.reread() {
				next = time.Now()
			}
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
			found[i], errs[i] = p.lister.Series(ctx, s, since)
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
	p.registry.Store(newRegistry(f, listed, failures, p.mapper))
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

// reread applies a changed file and reports whether it did. A rule that is now
// broken keeps its previous version; the others change.
func (p *Provider) reread() bool {
	raw, err := os.ReadFile(p.opts.ConfigFile)
	if err == nil && bytes.Equal(raw, p.raw) {
		return false
	}
	var f *File
	if err == nil {
		p.raw = raw
		f, err = Parse(p.opts.ConfigFile, raw)
	}
	if err != nil {
		if text := err.Error(); text != p.unread {
			p.unread = text
			p.log.Warn("prometheus-adapter configuration cannot be used, the previous one stays in force", slog.Any("error", err))
		}
		return false
	}
	p.unread = ""
	f.keep(p.file)
	p.take(f)
	return true
}

// keep restores the previous version of rules that are now broken.
func (f *File) keep(before *File) {
	for _, list := range []struct{ now, old *[]*Rule }{{&f.Custom, &before.Custom}, {&f.External, &before.External}} {
		for _, old := range *list.old {
			broken := slices.ContainsFunc(f.Problems, func(p Problem) bool { return p.Rule == old.ID })
			if broken {
				*list.now = append(*list.now, old)
			}
		}
		slices.SortStableFunc(*list.now, func(a, b *Rule) int { return a.place() - b.place() })
	}
}

// place is the rule's index in its list.
func (r *Rule) place() int {
	var n int
	for _, c := range r.ID {
		if c >= '0' && c <= '9' {
			n = n*10 + int(c-'0')
		}
	}
	return n
}

func (p *Provider) take(f *File) {
	p.file = f
	p.log.Info("prometheus-adapter rules", slog.String("file", f.Name), slog.Int("custom", len(f.Custom)), slog.Int("external", len(f.External)))
	for _, problem := range f.Problems {
		p.log.Warn("rule left out", slog.Any("error", problem))
	}
	if f.ResourceRules {
		p.log.Warn("resourceRules are not served: they are for metrics.k8s.io", slog.String("file", f.Name))
	}
}

var _ Lister = (*prom.Client)(nil)

// errNoFile: New was called without a file.
var errNoFile = errors.New("no prometheus-adapter configuration file is given")

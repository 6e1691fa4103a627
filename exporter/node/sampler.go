package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// closeTimeout is how long a hanging source delays the end.
const closeTimeout = 3 * time.Second

// slowPass is the time after which an unfinished pass is logged. A driver can hang for
// minutes; only this goroutine waits for it.
const slowPass = 10 * time.Second

// sampled is a reading and what was watched when it was taken.
type sampled struct {
	reading *collect.Reading
	watch   *watch
	first   bool // the first reading of that watch
}

// sampler reads the source, and releases GPUs between two passes. Only the goroutine that runs sample
// reaches the source.
type sampler struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics

	wants    atomic.Pointer[watch]                // requested by New and by Reload
	latest   atomic.Pointer[sampled]              // nil before the first one
	fresh    chan struct{}                        // receives after latest has changed
	failed   atomic.Pointer[error]                // of the last pass
	jobs     chan func()                          // run between passes
	released atomic.Pointer[map[string]time.Time] // end of each release by GPU UUID, on the monotonic clock; replaced by that goroutine

	// Of that goroutine only:
	watched  *watch            // the source's
	failures int               // passes that failed since the last good one
	gpus     map[string]string // UUID of each GPU, by UUID and by index
}

// sample reads the source until ctx ends, and closes it.
func (s *sampler) sample(ctx context.Context) {
	for {
		began := time.Now()
		s.expire(began)
		s.pass(began)
		if !s.wait(ctx, began) {
			if err := s.opts.Source.Close(); err != nil {
				s.log.Warn("closing the source", "error", err)
			}
			return
		}
	}
}

// wait runs jobs until the next pass is due; false when ctx ended.
func (s *sampler) wait(ctx context.Context, began time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(s.pause()))):
			return true
		case job := <-s.jobs:
			job()
		}
	}
}

// pass takes one reading. A failure is logged when it begins and when it ends.
func (s *sampler) pass(began time.Time) {
	slow := time.AfterFunc(slowPass, func() { s.log.Warn("the source does not answer", "for", slowPass.String()) })
	if wants := s.wants.Load(); s.watched != wants {
		s.opts.Source.Watch(wants.fields, s.opts.Interval, wants.slower)
		s.watched = wants
	}
	reading, err := s.opts.Source.Read()
	slow.Stop()
	s.metrics.read(time.Since(began), err)
	before := s.failure()
	if err != nil {
		err = fmt.Errorf("reading the source: %w", err)
		s.failures++
		s.failed.Store(&err)
		if before == nil {
			s.log.Warn("the source gives no reading", "error", err)
		}
		return
	}
	if before != nil {
		s.log.Info("the source gives readings again")
		s.metrics.reconnects.Inc()
	}
	s.failures = 0
	s.failed.Store(nil)
	count(s.metrics.drops, reading.Dropped)
	s.know(reading)
	s.take(reading, s.watched)
	select {
	case s.fresh <- struct{}{}:
	default: // one is waiting already
	}
}

// take makes a reading the latest.
func (s *sampler) take(r *collect.Reading, w *watch) {
	before := s.latest.Load()
	s.latest.Store(&sampled{reading: r, watch: w, first: before == nil || before.watch != w})
}

// Reading is the newest reading; nil before the first.
func (s *sampler) Reading() *collect.Reading {
	if latest := s.latest.Load(); latest != nil {
		return latest.reading
	}
	return nil
}

// failure is why the last pass failed, nil where it did not.
func (s *sampler) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// stale returns why the source gives no fresh values, nil if it does. A reading without
// values is not enough, unless GPUs are released.
func (s *sampler) stale(now time.Time) error {
	limit := collect.StaleAfter(s.opts.Interval)
	latest, failure := s.latest.Load(), s.failure()
	if latest == nil {
		if failure != nil {
			return fmt.Errorf("no reading yet: %w", failure)
		}
		return errors.New("no reading yet")
	}
	if age := now.Sub(latest.reading.Taken); age > limit {
		if failure == nil {
			failure = errors.New("the source has not answered since")
		}
		return fmt.Errorf("the newest reading is %s old: %w", age.Round(100*time.Millisecond), failure)
	}
	if len(s.quiesced()) > 0 {
		return nil
	}
	newest := latest.reading.Newest()
	if newest.IsZero() {
		return errors.New("the newest reading has no value")
	}
	if age := now.Sub(newest); age > limit {
		return fmt.Errorf("the newest value is %s old", age.Round(100*time.Millisecond))
	}
	return nil
}

// The first pass after a failed one comes soon, since most failures are restarts of the host
// engine. With the longest delay a returned host engine is still found within ten seconds.
const (
	firstDelay   = 250 * time.Millisecond
	longestDelay = 5 * time.Second
)

// pause returns the time from the start of a pass to the next one: an interval, a delay of its own
// after failures, and less if the values were old. A host engine samples on its own clock, so the
// passes move to just after its samples. Otherwise values could be two intervals old.
func (s *sampler) pause() time.Duration {
	if s.failures > 0 {
		return min(firstDelay<<min(s.failures-1, 10), longestDelay)
	}
	reading := s.latest.Load().reading
	if age := reading.Taken.Sub(reading.Newest()); age > s.opts.Interval/4 && age < s.opts.Interval {
		return s.opts.Interval - age + s.opts.Interval/10
	}
	return s.opts.Interval
}

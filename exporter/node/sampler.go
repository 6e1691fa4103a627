package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// closeTimeout is how long a hanging source delays the end.
const closeTimeout = 3 * time.Second

// slowPass is after how long a pass that has not ended is logged. A driver can hang for
// minutes; what waits for it then is this goroutine alone.
const slowPass = 10 * time.Second

// sampler reads a source on a fixed clock, from one goroutine.
type sampler struct {
	opts    Options
	metrics *metrics

	wants   atomic.Pointer[fieldSet] // fields to read, changed by a reload
	watched *fieldSet                // fields last watched

	latest atomic.Pointer[sampled]
	fresh  chan struct{} // receives after latest changed
	failed atomic.Pointer[error]
	away   atomic.Int32 // released GPUs

	jobs chan func() // run between passes

	// Of the sampler's goroutine only:
	failures int                  // passes that failed since the last good one
	gpus     map[string]string    // UUID of each GPU, by UUID and by index
	quiesced map[string]time.Time // released GPUs by UUID, and until when
}

func newSampler(o Options, m *metrics) *sampler {
	s := &sampler{opts: o, metrics: m, fresh: make(chan struct{}, 1), jobs: make(chan func()), quiesced: map[string]time.Time{}}
	s.wants.Store(wanted(o.Compat, o.Interval))
	return s
}

// fieldSet are the fields a source watches, and those that it may take more rarely than it is
// read.
type fieldSet struct {
	fields []uint16
	slower map[uint16]time.Duration
}

// sampled is a reading and the fields watched when it was taken.
type sampled struct {
	reading *collect.Reading
	asked   *fieldSet
}

// wanted is every field that our own families and the DCGM series need. Our own need theirs
// with each reading.
func wanted(c collect.CompatOptions, interval time.Duration) *fieldSet {
	own := collect.Fields()
	set := &fieldSet{fields: append(own, c.Fields()...), slower: map[uint16]time.Duration{}}
	for _, f := range c.Counters {
		if f.Every > interval && !slices.Contains(own, f.ID) {
			set.slower[f.ID] = f.Every
		}
	}
	slices.Sort(set.fields)
	set.fields = slices.Compact(set.fields)
	return set
}

func (s *sampler) run(ctx context.Context) {
	for {
		began := time.Now()
		s.expire(began)
		s.pass(began)
		if !s.wait(ctx, began) {
			if err := s.opts.Source.Close(); err != nil {
				s.opts.Log.Warn("closing the source", "error", err)
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
	slow := time.AfterFunc(slowPass, func() { s.opts.Log.Warn("the source does not answer", "for", slowPass.String()) })
	reading, err := s.read()
	slow.Stop()
	s.metrics.read(time.Since(began), err)
	before := s.failure()
	if err != nil {
		s.failures++
		s.failed.Store(&err)
		if before == nil {
			s.opts.Log.Warn("the source gives no reading", "error", err)
		}
		return
	}
	if before != nil {
		s.opts.Log.Info("the source gives readings again")
		s.metrics.reconnects.Inc()
	}
	s.failures = 0
	s.failed.Store(nil)
	count(s.metrics.drops, reading.Dropped)
	s.know(reading)
	s.latest.Store(&sampled{reading, s.watched})
	select {
	case s.fresh <- struct{}{}:
	default: // one is waiting already
	}
}

func (s *sampler) read() (*collect.Reading, error) {
	if wants := s.wants.Load(); s.watched != wants {
		s.opts.Source.Watch(wants.fields, s.opts.Interval, wants.slower)
		s.watched = wants
	}
	reading, err := s.opts.Source.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	return reading, nil
}

// stale is why the source gives no fresh values, nil where it does. A reading without any is
// none, unless GPUs are released.
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
	if s.away.Load() > 0 {
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

// failure is why the last pass failed, nil where it did not.
func (s *sampler) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// The first pass after one that failed comes soon, since most failures are restarts of the host
// engine; the longest delay still finds one that is back within ten seconds.
const (
	firstDelay   = 250 * time.Millisecond
	longestDelay = 5 * time.Second
)

// pause is how long after a pass the next one begins: an interval, an own delay after failures, and
// less where the values were old. A host engine samples on a clock of its own; the passes move to soon
// after its samples, or values would be two intervals old.
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

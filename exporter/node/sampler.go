package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// closeTimeout is how long a hanging source delays the end.
const closeTimeout = 3 * time.Second

// sampler reads a source on a fixed clock, from one goroutine.
type sampler struct {
	source   collect.Source
	interval time.Duration
	metrics  *metrics
	log      *slog.Logger

	wants   atomic.Pointer[fieldSet] // fields to read, changed by a reload
	watched *fieldSet                // fields last watched

	latest atomic.Pointer[sampled]
	fresh  chan struct{} // receives after latest changed
	failed atomic.Pointer[error]

	jobs chan func() // run between passes

	// Of the sampler's goroutine only:
	gpus     map[string]string    // UUID of each GPU, by UUID and by index
	quiesced map[string]time.Time // released GPUs by UUID, and until when
}

func newSampler(o Options, m *metrics) *sampler {
	s := &sampler{
		source: o.Source, interval: o.Interval,
		metrics: m, log: o.Log, fresh: make(chan struct{}, 1),
		jobs: make(chan func()), quiesced: map[string]time.Time{},
	}
	s.wants.Store(&fieldSet{wanted(o.Compat)})
	return s
}

// fieldSet are the fields a source watches.
type fieldSet struct{ fields []uint16 }

// sampled is a reading and the fields watched when it was taken.
type sampled struct {
	reading *collect.Reading
	asked   *fieldSet
}

// wanted is every field that our own families and the DCGM series need.
func wanted(c collect.CompatOptions) []uint16 {
	fields := append(collect.Fields(), c.Fields()...)
	slices.Sort(fields)
	return slices.Compact(fields)
}

func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		s.expire(time.Now())
		s.pass()
		if !s.wait(ctx, s.next(tick.C)) {
			if err := s.source.Close(); err != nil {
				s.log.Warn("closing the source", "error", err)
			}
			return
		}
	}
}

// wait runs jobs until the next tick; false when ctx ended.
func (s *sampler) wait(ctx context.Context, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case job := <-s.jobs:
			job()
		}
	}
}

// pass takes one reading. A failure is logged when it begins and when it ends.
func (s *sampler) pass() {
	began := time.Now()
	reading, err := s.read()
	s.metrics.read(time.Since(began), err)
	before := s.failure()
	if err != nil {
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
	s.failed.Store(nil)
	s.metrics.dropped(reading.Dropped)
	s.know(reading)
	s.latest.Store(&sampled{reading, s.watched})
	select {
	case s.fresh <- struct{}{}:
	default: // one is waiting already
	}
}

func (s *sampler) read() (*collect.Reading, error) {
	if wants := s.wants.Load(); s.watched != wants {
		if err := s.source.Watch(wants.fields, s.interval); err != nil {
			return nil, fmt.Errorf("watching %d fields: %w", len(wants.fields), err)
		}
		s.watched = wants
	}
	reading, err := s.source.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	return reading, nil
}

// failure is why the last pass failed, nil where it did not.
func (s *sampler) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// retryEvery is how soon a source that failed is tried again where it is read
// less often: one that is back is to be seen within ten seconds.
const retryEvery = 2 * time.Second

// next is when the next pass begins: at the tick, or sooner after a failure.
func (s *sampler) next(tick <-chan time.Time) <-chan time.Time {
	if s.failure() == nil || s.interval <= retryEvery {
		return tick
	}
	return time.After(retryEvery)
}

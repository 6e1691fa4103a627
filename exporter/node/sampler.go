package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// closeTimeout is how long a hanging source delays the end.
const closeTimeout = 3 * time.Second

// sampler reads a source on a fixed clock, from one goroutine.
type sampler struct {
	source   collect.Source
	fields   []uint16
	interval time.Duration
	metrics  *metrics
	log      *slog.Logger

	watched bool // the source has accepted the fields

	latest atomic.Pointer[collect.Reading]
	fresh  chan struct{} // receives after latest changed
	failed atomic.Pointer[error]
}

func newSampler(o Options, m *metrics) *sampler {
	return &sampler{
		source: o.Source, fields: wanted(o.Compat), interval: o.Interval,
		metrics: m, log: o.Log, fresh: make(chan struct{}, 1),
	}
}

// wanted is every field that our own families and the DCGM series need.
func wanted(c collect.CompatOptions) []uint16 {
	fields := collect.Fields()
	if c.Mode != collect.CompatOff {
		for _, f := range c.Counters {
			if f.Kind != counters.Label || f.ID > 1 { // the driver version is part of every Entity
				fields = append(fields, f.ID)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		s.pass()
		select {
		case <-ctx.Done():
			if err := s.source.Close(); err != nil {
				s.log.Warn("closing the source", "error", err)
			}
			return
		case <-tick.C:
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
	s.latest.Store(reading)
	select {
	case s.fresh <- struct{}{}:
	default: // one is waiting already
	}
}

func (s *sampler) read() (*collect.Reading, error) {
	if !s.watched {
		if err := s.source.Watch(s.fields, s.interval); err != nil {
			return nil, fmt.Errorf("watching %d fields: %w", len(s.fields), err)
		}
		s.watched = true
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

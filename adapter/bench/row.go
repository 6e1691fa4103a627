package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/gpuscale/gpuscale/internal/procstat"
)

// row is the measurement of one adapter with one number of HPAs.
type row struct {
	title   string
	hpas    int
	took    time.Duration // of the measurement
	answers answers
	inside  inside

	queries, series, lists, reviews float64 // a minute
	cpu, own                        float64 // seconds a minute, of the adapter and of this process
	rss, peak                       int64   // bytes
	load                            string
}

// reading is the state of all counters at one time.
type reading struct {
	at                              time.Time
	queries, series, lists, reviews int64
	cpu, own                        time.Duration
	inside                          inside
}

func (l *lab) read(ctx context.Context, s *subject) (reading, error) {
	in, err := s.inside(ctx)
	return reading{
		at: time.Now(), inside: in, cpu: procstat.CPU(s.cmd.Process.Pid), own: procstat.CPU(os.Getpid()),
		queries: l.prometheus.queries.Load(), series: l.prometheus.series.Load(),
		lists: l.api.counts.list.Load(), reviews: l.api.counts.review.Load(),
	}, err
}

// measure runs count HPAs for warm, and then counts for long.
func (l *lab) measure(ctx context.Context, s *subject, count int, warm, long time.Duration) (row, error) {
	h, err := newHPAs(l.fleet, s.address, l.certs)
	if err != nil {
		return row{}, err
	}
	runtime.GC() // the generator's own, not during the measurement
	asking, stop := context.WithTimeout(ctx, warm+long)
	defer stop()
	done := make(chan answers, 1)
	go func() { done <- h.run(asking, count, warm) }()
	select {
	case <-ctx.Done():
		return row{}, ctx.Err()
	case <-s.ended:
		return row{}, fmt.Errorf("%s has ended: %s", s.title, tail(s.log))
	case <-time.After(warm):
	}
	before, err := l.read(ctx, s)
	if err != nil {
		return row{}, err
	}
	select {
	case <-s.ended:
		return row{}, fmt.Errorf("%s has ended: %s", s.title, tail(s.log))
	case <-asking.Done():
	}
	after, err := l.read(ctx, s)
	if err != nil {
		return row{}, err
	}
	r := row{title: s.title, hpas: count, took: after.at.Sub(before.at), load: procstat.Load()}
	perMinute := func(a, b int64) float64 { return float64(b-a) / r.took.Minutes() }
	r.queries, r.series = perMinute(before.queries, after.queries), perMinute(before.series, after.series)
	r.lists, r.reviews = perMinute(before.lists, after.lists), perMinute(before.reviews, after.reviews)
	r.cpu = (after.cpu - before.cpu).Seconds() / r.took.Minutes()
	r.own = (after.own - before.own).Seconds() / r.took.Minutes()
	r.inside = after.inside.since(before.inside)
	memory := procstat.Memory(s.cmd.Process.Pid)
	r.rss, r.peak = memory.Now, memory.Peak
	select {
	case r.answers = <-done:
	case <-time.After(2 * period): // each request has a timeout of one
		return row{}, fmt.Errorf("the generator did not come to an end")
	}
	return r, ctx.Err()
}

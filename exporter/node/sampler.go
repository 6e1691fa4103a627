package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// closeTimeout is how long a hanging source delays the end.
const closeTimeout = 3 * time.Second

// slowPass is after how long a pass that has not ended is logged. A driver can hang for
// minutes; what waits for it then is this goroutine alone.
const slowPass = 10 * time.Second

// sampled is a reading and what was watched when it was taken.
type sampled struct {
	reading *collect.Reading
	watch   *watch
}

// sample reads the source until ctx ends, and closes it.
func (n *Node) sample(ctx context.Context) {
	for {
		began := time.Now()
		n.expire(began)
		n.pass(began)
		if !n.wait(ctx, began) {
			if err := n.opts.Source.Close(); err != nil {
				n.log.Warn("closing the source", "error", err)
			}
			return
		}
	}
}

// wait runs jobs until the next pass is due; false when ctx ended.
func (n *Node) wait(ctx context.Context, began time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(n.pause()))):
			return true
		case job := <-n.jobs:
			job()
		}
	}
}

// pass takes one reading. A failure is logged when it begins and when it ends.
func (n *Node) pass(began time.Time) {
	slow := time.AfterFunc(slowPass, func() { n.log.Warn("the source does not answer", "for", slowPass.String()) })
	if wants := n.wants.Load(); n.watched != wants {
		n.opts.Source.Watch(wants.fields, n.opts.Interval, wants.slower)
		n.watched = wants
	}
	reading, err := n.opts.Source.Read()
	slow.Stop()
	n.metrics.read(time.Since(began), err)
	before := n.failure()
	if err != nil {
		err = fmt.Errorf("reading the source: %w", err)
		n.failures++
		n.failed.Store(&err)
		if before == nil {
			n.log.Warn("the source gives no reading", "error", err)
		}
		return
	}
	if before != nil {
		n.log.Info("the source gives readings again")
		n.metrics.reconnects.Inc()
	}
	n.failures = 0
	n.failed.Store(nil)
	count(n.metrics.drops, reading.Dropped)
	n.know(reading)
	n.latest.Store(&sampled{reading, n.watched})
	select {
	case n.fresh <- struct{}{}:
	default: // one is waiting already
	}
}

// failure is why the last pass failed, nil where it did not.
func (n *Node) failure() error {
	if err := n.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// stale is why the source gives no fresh values, nil where it does. A reading without any is
// none, unless GPUs are released.
func (n *Node) stale(now time.Time) error {
	limit := collect.StaleAfter(n.opts.Interval)
	latest, failure := n.latest.Load(), n.failure()
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
	if len(n.quiesced()) > 0 {
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

// The first pass after one that failed comes soon, since most failures are restarts of the host
// engine; the longest delay still finds one that is back within ten seconds.
const (
	firstDelay   = 250 * time.Millisecond
	longestDelay = 5 * time.Second
)

// pause is how long after a pass the next one begins: an interval, an own delay after failures, and
// less where the values were old. A host engine samples on a clock of its own; the passes move to soon
// after its samples, or values would be two intervals old.
func (n *Node) pause() time.Duration {
	if n.failures > 0 {
		return min(firstDelay<<min(n.failures-1, 10), longestDelay)
	}
	reading := n.latest.Load().reading
	if age := reading.Taken.Sub(reading.Newest()); age > n.opts.Interval/4 && age < n.opts.Interval {
		return n.opts.Interval - age + n.opts.Interval/10
	}
	return n.opts.Interval
}

package node

import (
	"errors"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// watch is a set of counters and what a source watches for them.
type watch struct {
	compat collect.CompatOptions
	fields []uint16 // of our own families and of the DCGM series, sorted
	// slower are the fields that the source may sample less often than it is read, with their
	// intervals. Fields of our own families are not among them.
	slower map[uint16]time.Duration
}

func newWatch(c collect.CompatOptions, interval time.Duration) *watch {
	own := collect.Fields()
	w := &watch{compat: c, fields: append(own, c.Fields()...), slower: map[uint16]time.Duration{}}
	for _, f := range c.Counters {
		if f.Every > interval && !slices.Contains(own, f.ID) {
			w.slower[f.ID] = f.Every
		}
	}
	slices.Sort(w.fields)
	w.fields = slices.Compact(w.fields)
	return w
}

// Reload serves other counters. The source is asked for their fields with its
// next pass; until a reading has them the page stays as it is, so no scrape
// finds a gap. It is safe for concurrent use; the last of several calls wins.
func (n *Node) Reload(fields []counters.Field) {
	compat := n.opts.Compat
	compat.Counters = fields
	n.wants.Store(newWatch(compat, n.opts.Interval))
	n.metrics.reloaded(nil)
}

// ReloadFailed records that new counters were invalid: the previous ones stay.
func (n *Node) ReloadFailed() { n.metrics.reloaded(errors.New("the counters are invalid")) }

// Reloading reports whether new counters are requested and not served yet.
func (n *Node) Reloading() bool { return n.wants.Load() != n.serving.Load() }

// adopt reports whether a page can be made of the latest reading. It switches to requested counters
// with the second reading of their fields: some fields, mostly of profiling, have no value in the
// first. If the page is about to become stale, it does not wait for the second.
func (n *Node) adopt(latest *sampled, now time.Time) bool {
	wants := n.wants.Load()
	if latest.watch == n.serving.Load() {
		return true
	}
	if latest.watch != wants || n.shown != nil && latest.first && now.Sub(n.shown.Taken) < 2*n.opts.Interval {
		return false
	}
	n.compiler.Reload(wants.compat)
	n.serving.Store(wants)
	n.log.Info("serving the new counters", "fields", len(wants.compat.Counters))
	return true
}

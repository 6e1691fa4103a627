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
	// slower are the fields that the source may take more rarely than it is read; none of our own
	// families'.
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
// finds a gap. It is safe beside everything else; of several the last one wins.
func (n *Node) Reload(fields []counters.Field) {
	compat := n.opts.Compat
	compat.Counters = fields
	n.wants.Store(newWatch(compat, n.opts.Interval))
	n.metrics.reloaded(nil)
}

// ReloadFailed records that a counters file was invalid: the one before stays.
func (n *Node) ReloadFailed() { n.metrics.reloaded(errors.New("the counters are invalid")) }

// Reloading reports whether new counters are requested and not served yet.
func (n *Node) Reloading() bool { return n.wants.Load() != n.serving.Load() }

// adopt goes over to requested counters once a reading serves them as well as the
// page does, and reports whether a page can be made of it. Some fields, those
// of profiling above all, need an interval after a new watch; they are awaited
// as long as the page is not about to become stale.
func (n *Node) adopt(latest *sampled, now time.Time) bool {
	wants := n.wants.Load()
	if latest.watch == n.serving.Load() {
		return true
	}
	if latest.watch != wants || n.shown != nil && now.Sub(n.shown.Taken) < 2*n.opts.Interval && !asComplete(latest.reading, n.shown, wants.fields) {
		return false
	}
	n.compiler.Reload(wants.compat)
	n.serving.Store(wants)
	n.log.Info("serving the new counters", "fields", len(wants.compat.Counters))
	return true
}

// asComplete reports whether a reading has each value that an older one has of
// the same entity and that is still asked for.
func asComplete(newer, older *collect.Reading, asked []uint16) bool {
	for i := range older.Entities {
		before := &older.Entities[i]
		j := slices.IndexFunc(newer.Entities, func(e collect.Entity) bool { return same(&e, before) })
		if j < 0 {
			continue // it is gone
		}
		for _, v := range before.Values {
			if _, ok := newer.Entities[j].Value(v.Field); !ok && slices.Contains(asked, v.Field) {
				return false
			}
		}
	}
	return true
}

func same(a, b *collect.Entity) bool {
	return a.Kind == b.Kind && a.GPU == b.GPU && a.UUID == b.UUID && a.InstanceID == b.InstanceID && a.InstanceUUID == b.InstanceUUID
}

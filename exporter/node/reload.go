package node

import (
	"errors"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// reload is a set of requested counters.
type reload struct {
	compat collect.CompatOptions
	asked  *fieldSet
}

// Reload serves other counters. The source is asked for their fields with its
// next pass; until a reading has them the page stays as it is, so no scrape
// finds a gap. It is safe beside everything else; of several the last one wins.
func (n *Node) Reload(fields []counters.Field) {
	compat := n.opts.Compat
	compat.Counters = fields
	r := &reload{compat: compat, asked: wanted(compat, n.opts.Interval)}
	n.pending.Store(r)
	n.sampler.wants.Store(r.asked)
	n.metrics.reloaded(nil)
}

// ReloadFailed records that a counters file was invalid: the one before stays.
func (n *Node) ReloadFailed() { n.metrics.reloaded(errors.New("the counters are invalid")) }

// Reloading reports whether new counters are requested and not served yet.
func (n *Node) Reloading() bool { return n.pending.Load() != nil }

// adopt goes over to pending counters once a reading serves them as well as the
// page does, and reports whether a page can be made of it. Some fields, those
// of profiling above all, need an interval after a new watch; they are awaited
// as long as the page is not about to become stale.
func (n *Node) adopt(latest *sampled, now time.Time) bool {
	pending := n.pending.Load()
	if pending == nil {
		return true
	}
	if latest.asked != pending.asked {
		return latest.asked == n.serving
	}
	if n.shown != nil && now.Sub(n.shown.Taken) < 2*n.opts.Interval && !asComplete(latest.reading, n.shown, pending.asked) {
		return false
	}
	n.compiler.Reload(pending.compat)
	n.serving = pending.asked
	n.pending.CompareAndSwap(pending, nil)
	n.log.Info("serving the new counters", "fields", len(pending.compat.Counters))
	return true
}

// asComplete reports whether a reading has each value that an older one has of
// the same entity and that is still asked for.
func asComplete(newer, older *collect.Reading, asked *fieldSet) bool {
	for i := range older.Entities {
		before := &older.Entities[i]
		j := slices.IndexFunc(newer.Entities, func(e collect.Entity) bool { return same(&e, before) })
		if j < 0 {
			continue // it is gone
		}
		for _, v := range before.Values {
			if _, ok := newer.Entities[j].Value(v.Field); !ok && slices.Contains(asked.fields, v.Field) {
				return false
			}
		}
	}
	return true
}

func same(a, b *collect.Entity) bool {
	return a.Kind == b.Kind && a.GPU == b.GPU && a.UUID == b.UUID && a.InstanceID == b.InstanceID && a.InstanceUUID == b.InstanceUUID
}

package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// idleBelow is the busy ratio under which an entity does nothing: GPU_UTIL
// counts in whole percents, and a context that only exists reads as a trace.
const idleBelow = 0.01

// idle has a series for each allocation whose computing is known: the only one
// of an entity, or one of several where the driver measures their parts. The
// value is 0 while the container computes.
func idle() family {
	return family{desc: metric.GPUIdleSeconds, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.allocated {
			if s.busy.known {
				add(s.text(d), s.idle.Seconds(), s.busy.taken)
			}
		}
	}}
}

// allocated yields the allocations of all entities.
func (m *Moment) allocated(yield func(*subject) bool) {
	for i := range m.subjects {
		allocations := m.subjects[i].allocations
		for j := range allocations {
			if !yield(&allocations[j]) {
				return
			}
		}
	}
}

// idleKey is an allocation of an entity. The index is part of it because some
// GPUs have no UUID.
type idleKey struct {
	gpu, instance int
	kind          EntityKind
	uuid          string
	allocation    Allocation
}

// idleSpan is since when an allocation is idle, and when that was last
// confirmed.
type idleSpan struct{ since, seen time.Time }

// idleTracker follows allocations over readings. A gap longer than maxGap ends
// a span: use within it is unknown.
type idleTracker struct {
	spans  map[idleKey]idleSpan
	maxGap time.Duration
}

// observe sets the idle time of each allocation and forgets those that are
// gone.
func (t *idleTracker) observe(allocated func(func(*subject) bool)) {
	next := make(map[idleKey]idleSpan, len(t.spans))
	for s := range allocated {
		key := idleKey{s.entity.GPU, s.entity.InstanceID, s.entity.Kind, s.entity.UUID, s.allocation}
		span, ok := t.spans[key]
		switch {
		case !s.busy.known:
			if ok {
				next[key] = span // unknown is neither idle nor busy
			}
			continue
		case s.busy.value >= idleBelow:
			continue
		case !ok || s.busy.taken.Sub(span.seen) > t.maxGap:
			span.since = s.busy.taken
		}
		span.seen = s.busy.taken
		next[key] = span
		s.idle = max(0, span.seen.Sub(span.since))
	}
	t.spans = next
}

package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// idleBelow is the busy ratio under which an entity does nothing: GPU_UTIL
// counts in whole percents, and a context that only exists reads as a trace.
const idleBelow = 0.01

// idle has a series for each holder of whom it is known what it computes: the
// only one, or one of several where the driver tells their parts. While it
// computes the value is 0.
func idle() family {
	return family{desc: metric.GPUIdleSeconds, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.held {
			if s.busy.known {
				add(s.text(d), s.idle.Seconds(), s.busy.taken)
			}
		}
	}}
}

// held yields the holders of all entities.
func (m *Moment) held(yield func(*subject) bool) {
	for i := range m.subjects {
		holders := m.subjects[i].holders
		for j := range holders {
			if !yield(&holders[j]) {
				return
			}
		}
	}
}

// idleKey is who has been idle on what. The UUID would be enough but for cards
// that have none.
type idleKey struct {
	gpu, instance int
	kind          EntityKind
	uuid          string
	holder        Holder
}

// idleSpan is since when, and when that was last confirmed.
type idleSpan struct{ since, seen time.Time }

// idleTracker follows held entities over readings. A gap longer than maxGap
// ends a span: nobody saw what happened in it.
type idleTracker struct {
	spans  map[idleKey]idleSpan
	maxGap time.Duration
}

// observe sets the holders' idle time and forgets who is gone.
func (t *idleTracker) observe(held func(func(*subject) bool)) {
	next := make(map[idleKey]idleSpan, len(t.spans))
	for s := range held {
		key := idleKey{s.entity.GPU, s.entity.InstanceID, s.entity.Kind, s.entity.UUID, s.holder}
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

package collect

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// family is one of our metric families and how a Moment gives its samples.
type family struct {
	desc metric.Desc
	// aging families show the age of their samples' time at the moment of the
	// scrape, whatever number was added, and never go stale: they show the
	// staleness of the others.
	aging   bool
	collect func(m *Moment, d *metric.Desc, add adder)
}

// adder takes one sample. The label text is a family's d rendered by a subject.
type adder func(labels string, value float64, taken time.Time)

// sample is a subject's one value in a family; false where it has none.
type sample func(m *Moment, s *subject) (value float64, taken time.Time, ok bool)

// of is the family of one sample a subject.
func of(desc metric.Desc, value sample) family {
	return family{desc: desc, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if v, taken, ok := value(m, s); ok {
				add(s.text(d), v, taken)
			}
		}
	}}
}

// all lists our families in the order in which they are served.
func all() []family {
	return []family{
		of(metric.GPUInfo, there(GPU)), of(metric.GPUInstanceInfo, there(Instance)), allocated(),
		of(metric.GPUBusyRatio, busyRatio(GPU)), of(metric.GPUInstanceBusyRatio, busyRatio(Instance)), divided(metric.GPUShareRatio, share, partOfShare),
		divided(metric.GPUMemoryUsedBytes, memoryUsed, partOfMemory), divided(metric.GPUMemoryTotalBytes, memoryTotal, noPart),
		of(metric.GPUPowerWatts, power), of(metric.GPUEnergyJoulesTotal, energy), of(metric.GPUBusySecondsTotal, busySeconds), throttleSeconds(),
		idle(), healthy(), xidErrors(),
		sampleAge(), attributionAge(),
	}
}

// there gives 1 for each entity of a kind.
func there(kind EntityKind) sample {
	return func(m *Moment, s *subject) (float64, time.Time, bool) { return 1, m.taken, s.entity.Kind == kind }
}

// allocated has one series for each allocation. On a shared GPU no other family
// names the pods, except where the driver measures processes.
func allocated() family {
	return family{desc: metric.GPUHeld, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.allocated {
			add(s.text(d), 1, m.taken)
		}
	}}
}

func busyRatio(kind EntityKind) sample {
	return func(_ *Moment, s *subject) (float64, time.Time, bool) {
		return s.busy.Number, s.busy.Time, s.busy.Known() && s.entity.Kind == kind
	}
}

// busySeconds is the integral of gpu_share_ratio: an entity has it where it has
// that.
func busySeconds(_ *Moment, s *subject) (float64, time.Time, bool) {
	_, weighed := weight(s.entity)
	return s.tally.busy, s.busy.Time, weighed && s.busy.Known() && !s.split
}

func power(_ *Moment, s *subject) (float64, time.Time, bool) {
	v, ok := s.ofGPU(fieldPowerWatts)
	return v.Number, v.Time, ok
}

// energy shows the GPU's tally while the GPU reports its own counter.
func energy(_ *Moment, s *subject) (float64, time.Time, bool) {
	v, ok := s.ofGPU(fieldEnergyMilli)
	return s.tally.joules, v.Time, ok
}

// ofGPU is a field of a GPU. The driver may repeat the GPU's number for an
// instance; it does not describe the instance.
func (s *subject) ofGPU(field uint16) (Value, bool) {
	v, ok := s.number(field)
	return v, ok && s.entity.Kind == GPU && v.Number >= 0
}

// sampleAge has a series for every entity of the last Reading, however old.
func sampleAge() family {
	f := of(metric.GPUSampleAgeSeconds, func(_ *Moment, s *subject) (float64, time.Time, bool) {
		var newest time.Time
		for _, v := range s.entity.Values {
			if v.Time.After(newest) {
				newest = v.Time
			}
		}
		return 0, newest, !newest.IsZero()
	})
	f.aging = true
	return f
}

// attributionAge is absent until the kubelet has answered once.
func attributionAge() family {
	return family{desc: metric.GPUAttributionAgeSeconds, aging: true, collect: func(m *Moment, d *metric.Desc, add adder) {
		if !m.attribution.IsZero() {
			add(m.node.text(d), 0, m.attribution)
		}
	}}
}

const mebibyte = 1 << 20

func memoryUsed(_ *Moment, s *subject) (float64, time.Time, bool) {
	v, ok := s.number(fieldFBUsed)
	return v.Number * mebibyte, v.Time, ok && v.Number >= 0
}

func partOfMemory(_ *subject, u *Usage) Measured { return u.Memory }

// memoryTotal is FB_TOTAL, or the sum of its parts where all of them are known.
func memoryTotal(_ *Moment, s *subject) (sum float64, taken time.Time, ok bool) {
	if v, ok := s.number(fieldFBTotal); ok {
		return v.Number * mebibyte, v.Time, v.Number >= 0
	}
	for _, field := range []uint16{fieldFBFree, fieldFBUsed, fieldFBReserved} {
		v, ok := s.number(field)
		if !ok {
			return 0, time.Time{}, false
		}
		if taken.IsZero() || v.Time.Before(taken) {
			taken = v.Time
		}
		sum += v.Number * mebibyte
	}
	return sum, taken, sum >= 0
}

func noPart(*subject, *Usage) Measured { return Measured{} }

// idleBelow is the busy ratio under which an entity does nothing: GPU_UTIL
// counts in whole percents, and a context that only exists reads as a trace.
const idleBelow = 0.01

// idle has a series for each allocation whose computing is known: the only one of an entity, or one
// of several where the driver measures their parts. Where it does not and all are one pod's, the
// series is the pod's. The value is 0 while it computes.
func idle() family {
	return family{desc: metric.GPUIdleSeconds, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.idling {
			if s.busy.Known() {
				add(s.text(d), s.idle.Seconds(), s.busy.Time)
			}
		}
	}}
}

// idling yields the entities that stand for the pod of their allocations, then all allocations.
func (m *Moment) idling(yield func(*subject) bool) {
	for i := range m.subjects {
		s := &m.subjects[i]
		apart := slices.ContainsFunc(s.allocations, func(a subject) bool { return a.busy.Known() })
		if len(s.allocations) > 1 && s.labels.allocation.Pod != "" && !apart && !yield(s) {
			return
		}
	}
	m.allocated(yield)
}

// gpus yields the GPUs.
func (m *Moment) gpus(yield func(*subject) bool) {
	for i := range m.subjects {
		if s := &m.subjects[i]; s.entity.Kind == GPU && !yield(s) {
			return
		}
	}
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

// idleKey is an allocation of an entity.
type idleKey struct {
	tallyKey
	allocation Allocation
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
func (t *idleTracker) observe(idling func(func(*subject) bool)) {
	next := make(map[idleKey]idleSpan, len(t.spans))
	for s := range idling {
		key := idleKey{keyOf(s.entity), s.labels.allocation}
		span, ok := t.spans[key]
		switch {
		case !s.busy.Known():
			if ok {
				next[key] = span // unknown is neither idle nor busy
			}
			continue
		case s.busy.Number >= idleBelow:
			continue
		case !ok || s.busy.Time.Sub(span.seen) > t.maxGap:
			span.since = s.busy.Time
		}
		span.seen = s.busy.Time
		next[key] = span
		s.idle = max(0, span.seen.Sub(span.since))
	}
	t.spans = next
}

// throttleReasons are the clock event reasons that reduce a GPU's clocks, by
// the driver's bit. Idleness (bit 1) is not one of them.
var throttleReasons = clockReasons[1:]

// addThrottled adds the time since the value before to each active reason.
func (t *tally) addThrottled(s *subject, maxGap time.Duration) {
	v, ok := s.number(fieldClockEvents)
	if !ok || s.entity.Kind != GPU {
		return
	}
	seconds := sinceLast(&t.throttleAt, v.Time, maxGap)
	for i, r := range throttleReasons {
		if int64(v.Number)&r.bit != 0 {
			t.throttled[i] += seconds
		}
	}
}

// throttleSeconds has a series for each reason of each GPU that reports them:
// those at 0 too, or the first throttling would show no increase.
func throttleSeconds() family {
	return family{desc: metric.GPUThrottleSecondsTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.gpus {
			v, ok := s.number(fieldClockEvents)
			if !ok {
				continue
			}
			for j, r := range throttleReasons {
				add(s.labels.with(d, metric.LabelReason, r.name), s.tally.throttled[j], v.Time)
			}
		}
	}}
}

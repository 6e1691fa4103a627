package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// maxGPUWatts is more than any GPU draws. A counter of energy that grows
// faster has been replaced or misread.
const maxGPUWatts = 20_000

// ledger is what adds up over Readings: seconds of computing and of throttling, energy, and since
// when allocations are idle.
type ledger struct {
	maxGap time.Duration
	// tallies are by the labels of gpu_busy_seconds_total. A GPU that comes back continues its count, and so does an
	// instance that is recreated under its old number and profile, since its series continues.
	tallies  map[string]*tally
	taken    time.Time // of the last reading
	readings int       // readings so far
}

// newLedger returns an empty one for Readings taken every interval.
func newLedger(interval time.Duration) *ledger {
	return &ledger{maxGap: StaleAfter(interval), tallies: map[string]*tally{}}
}

// tally is what has added up on one GPU or instance.
type tally struct {
	reading int // number of the last reading that has the entity

	busy   float64 // seconds of the GPU
	busyAt time.Time

	throttled  [len(clockReasons)]float64 // seconds, by clock reason
	throttleAt time.Time

	joules   float64
	raw      float64 // the driver's counter in joules
	energyAt time.Time

	idle map[Allocation]idleSpan
}

// idleSpan is since when an allocation is idle, and when that was last confirmed.
type idleSpan struct{ since, seen time.Time }

// observe takes a Moment in and gives each subject its tally. A Moment of the
// same Reading as the last one adds nothing.
func (l *ledger) observe(m *Moment) {
	if !m.taken.Equal(l.taken) {
		l.taken = m.taken
		l.readings++
	}
	for i := range m.subjects {
		s := &m.subjects[i]
		s.tally = l.of(s.labels.text(&metric.GPUBusySecondsTotal))
		s.tally.addBusy(s, l.maxGap)
		s.tally.addThrottled(s, l.maxGap)
		s.tally.addEnergy(s)
		s.tally.addIdle(s, l.maxGap)
	}
}

// of returns the tally of a series. Where its entity was missing in the reading
// before, its use is unknown, and counting starts at its next value.
func (l *ledger) of(series string) *tally {
	t := l.tallies[series]
	if t == nil {
		t = &tally{}
		l.tallies[series] = t
	} else if t.reading < l.readings-1 {
		t.busyAt, t.throttleAt, t.idle = time.Time{}, time.Time{}, nil
	}
	t.reading = l.readings
	return t
}

// sinceLast moves at to taken and returns the seconds between them: 0 for the
// first value, for one that is no newer, and after a gap longer than maxGap or a clock set back.
func sinceLast(at *time.Time, taken time.Time, maxGap time.Duration) float64 {
	before := *at
	if !isNews(taken, before) {
		return 0
	}
	*at = taken
	if gap := taken.Sub(before); !before.IsZero() && gap <= maxGap {
		return max(0, gap.Seconds())
	}
	return 0
}

// addBusy adds the share of the GPU that was computing over the time since the value
// before: DCGM's ratio is a mean over just that time. A partitioned GPU adds nothing
// itself: its instances do.
func (t *tally) addBusy(s *subject, maxGap time.Duration) {
	if weight, ok := weight(s.entity); ok && s.busy.Known() && !s.split {
		t.busy += s.busy.Number * weight * sinceLast(&t.busyAt, s.busy.Time, maxGap)
	}
}

// addEnergy follows the driver's counter, which restarts when the driver is
// loaded. Ours never falls. It starts at the driver's value.
func (t *tally) addEnergy(s *subject) {
	v := s.entity.number(fieldEnergyMilli)
	if !v.Known() || s.entity.Kind != GPU || !isNews(v.Time, t.energyAt) {
		return
	}
	raw := v.Number / 1000
	grown := raw - t.raw
	switch most := maxGPUWatts * v.Time.Sub(t.energyAt).Seconds(); {
	case t.energyAt.IsZero():
		t.joules = raw
	case grown >= 0 && grown <= most:
		t.joules += grown
	case grown < 0 && raw <= most:
		t.joules += raw // it began again
	}
	t.raw, t.energyAt = raw, v.Time
}

// addThrottled adds the time since the value before to each active reason.
func (t *tally) addThrottled(s *subject, maxGap time.Duration) {
	v := s.entity.number(fieldClockEvents)
	if !v.Known() || s.entity.Kind != GPU {
		return
	}
	seconds := sinceLast(&t.throttleAt, v.Time, maxGap)
	for i := range t.throttled {
		if int64(v.Number)>>i&1 != 0 {
			t.throttled[i] += seconds
		}
	}
}

// idleBelow is the busy ratio under which an entity does nothing: GPU_UTIL
// counts in whole percents, and a context that only exists reads as a trace.
const idleBelow = 0.01

// addIdle sets the idle time of each allocation, 0 while it computes, and forgets those that are
// gone. A gap longer than maxGap ends a span: use within it is unknown.
func (t *tally) addIdle(s *subject, maxGap time.Duration) {
	before := t.idle
	t.idle = nil
	for a := range s.idling {
		span, ok := before[a.labels.allocation]
		switch {
		case !a.busy.Known():
			if !ok {
				continue
			} // else unknown: neither idle nor busy
		case a.busy.Number >= idleBelow:
			continue
		default:
			if gap := a.busy.Time.Sub(span.seen); !ok || gap > maxGap || gap < -setBack {
				span.since = a.busy.Time
			}
			span.seen = a.busy.Time
			a.idle = max(0, span.seen.Sub(span.since))
		}
		if t.idle == nil {
			t.idle = map[Allocation]idleSpan{}
		}
		t.idle[a.labels.allocation] = span
	}
}

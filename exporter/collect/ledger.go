package collect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// maxTallies bounds what is remembered of entities that are gone. A GPU that
	// comes back counts on; of layouts long past the oldest are forgotten.
	maxTallies = 1024
	// maxGPUWatts is more than any GPU draws. A counter of energy that grows
	// faster has been replaced or misread.
	maxGPUWatts = 20_000
)

// Ledger is what adds up over Readings: seconds of computing and of throttling,
// energy, and since when allocations are idle. It outlives Compilers, so that a
// reload of the counters file resets nothing. It is for one goroutine.
type Ledger struct {
	maxGap   time.Duration
	tallies  map[tallyKey]*tally
	taken    time.Time // of the last reading
	readings int       // readings so far
	idle     idleTracker
}

// NewLedger returns an empty one for Readings taken every interval.
func NewLedger(interval time.Duration) *Ledger {
	gap := StaleAfter(interval)
	return &Ledger{maxGap: gap, tallies: map[tallyKey]*tally{}, idle: idleTracker{maxGap: gap}}
}

// tallyKey identifies the series of a tally: an instance made again under its
// old number and profile continues the count, since its series continues. The
// number is part of it because some GPUs have no UUID.
type tallyKey struct {
	kind          EntityKind
	gpu, instance int
	uuid, profile string
}

// tally is what has added up on one GPU or instance.
type tally struct {
	reading int // number of the last reading that has the entity

	busy   float64 // seconds of the GPU
	busyAt time.Time

	throttled  [len(clockReasons) - 1]float64 // seconds
	throttleAt time.Time

	joules   float64
	raw      float64 // the driver's counter in joules
	energyAt time.Time
}

func keyOf(e *Entity) tallyKey {
	key := tallyKey{kind: e.Kind, gpu: e.GPU, uuid: e.UUID}
	if e.Kind == Instance {
		key.instance, key.profile = e.InstanceID, e.Profile
	}
	return key
}

// observe takes a Moment in and gives each subject its tally. A Moment of the
// same Reading as the last one adds nothing.
func (l *Ledger) observe(m *Moment) {
	if !m.taken.Equal(l.taken) {
		l.taken = m.taken
		l.readings++
	}
	for i := range m.subjects {
		s := &m.subjects[i]
		s.tally = l.of(s.entity)
		s.tally.addBusy(s, l.maxGap)
		s.tally.addThrottled(s, l.maxGap)
		s.tally.addEnergy(s)
	}
	l.forget()
	l.idle.observe(m.idling)
}

// of returns the entity's tally. Where the entity was missing in the reading
// before, its use is unknown, and counting starts at its next value.
func (l *Ledger) of(e *Entity) *tally {
	key := keyOf(e)
	t := l.tallies[key]
	if t == nil {
		t = &tally{}
		l.tallies[key] = t
	} else if t.reading < l.readings-1 {
		t.busyAt, t.throttleAt = time.Time{}, time.Time{}
	}
	t.reading = l.readings
	return t
}

// forget drops the tallies unseen for longest beyond the limit.
func (l *Ledger) forget() {
	if len(l.tallies) <= 2*maxTallies {
		return
	}
	keys := slices.SortedFunc(maps.Keys(l.tallies), func(a, b tallyKey) int {
		return cmp.Compare(l.tallies[b].reading, l.tallies[a].reading)
	})
	for _, key := range keys[maxTallies:] {
		if l.tallies[key].reading < l.readings {
			delete(l.tallies, key)
		}
	}
}

// sinceLast moves at to taken and returns the seconds between them: 0 for the
// first value, for one that is no newer, and after a gap longer than maxGap.
func sinceLast(at *time.Time, taken time.Time, maxGap time.Duration) float64 {
	before := *at
	if !taken.After(before) {
		return 0
	}
	*at = taken
	if before.IsZero() || taken.Sub(before) > maxGap {
		return 0
	}
	return taken.Sub(before).Seconds()
}

// addBusy adds the share of the GPU that was computing over the time since the value
// before: DCGM's ratio is a mean over just that time. A partitioned GPU adds nothing
// itself: its instances do.
func (t *tally) addBusy(s *subject, maxGap time.Duration) {
	if weight, ok := weight(s.entity); ok && s.busy.Known() && !s.split {
		t.busy += s.busy.Number * weight * sinceLast(&t.busyAt, s.busy.Time, maxGap)
	}
}

// addEnergy follows the driver's counter, which begins again when the driver is
// loaded: ours never falls. It starts where the driver's stands.
func (t *tally) addEnergy(s *subject) {
	v, ok := s.number(fieldEnergyMilli)
	if !ok || s.entity.Kind != GPU || !v.Time.After(t.energyAt) || v.Number < 0 || math.IsInf(v.Number, 0) {
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

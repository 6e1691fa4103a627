package collect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// maxTallies bounds what is remembered of entities that are gone. A card that
	// comes back counts on; of layouts long past the oldest are forgotten.
	maxTallies = 1024
	// maxCardWatts is more than any card draws. A counter of energy that grows
	// faster has been replaced or misread.
	maxCardWatts = 20_000
)

// Ledger is what adds up over Readings: seconds of computing and of throttling,
// energy, and since when holders have been idle. It outlives Compilers, so that
// a reload of the counters file begins nothing anew. It is for one goroutine.
type Ledger struct {
	maxGap  time.Duration
	tallies map[tallyKey]*tally
	taken   time.Time // of the last reading
	turn    int       // how many readings there were
	idle    idleTracker
}

// NewLedger returns an empty one for Readings taken every interval.
func NewLedger(interval time.Duration) *Ledger {
	gap := StaleAfter(interval)
	return &Ledger{maxGap: gap, tallies: map[tallyKey]*tally{}, idle: idleTracker{maxGap: gap}}
}

// tallyKey is what tells the series of one tally from another's, and no more: an
// instance made anew under its old number and profile goes on counting, since
// its series goes on.
type tallyKey struct {
	kind          EntityKind
	gpu, instance int
	uuid, profile string
}

// tally is what has added up on one card or instance.
type tally struct {
	turn int // of the last reading that has the entity

	busy   float64 // seconds of the card
	busyAt time.Time

	throttled  [len(throttleReasons)]float64 // seconds
	throttleAt time.Time

	joules   float64
	raw      float64 // the driver's counter in joules
	energyAt time.Time
}

// observe takes a Moment in and gives each subject its tally. A Moment of the
// same Reading as the last one adds nothing.
func (l *Ledger) observe(m *Moment) {
	if !m.taken.Equal(l.taken) {
		l.taken = m.taken
		l.turn++
	}
	for i := range m.subjects {
		s := &m.subjects[i]
		s.tally = l.of(s.entity)
		s.tally.addBusy(s, l.maxGap)
		s.tally.addThrottled(s, l.maxGap)
		s.tally.addEnergy(s)
	}
	l.forget()
	l.idle.observe(m.held)
}

// of returns the entity's tally. Where the entity was missing in the reading
// before, nobody knows what it did meanwhile, and counting starts at its next
// value.
func (l *Ledger) of(e *Entity) *tally {
	key := tallyKey{kind: e.Kind, gpu: e.GPU, uuid: e.UUID}
	if e.Kind == Instance {
		key.instance, key.profile = e.InstanceID, e.Profile
	}
	t := l.tallies[key]
	if t == nil {
		t = &tally{}
		l.tallies[key] = t
	} else if t.turn < l.turn-1 {
		t.busyAt, t.throttleAt = time.Time{}, time.Time{}
	}
	t.turn = l.turn
	return t
}

// forget lets go of those unseen for longest where there are far too many.
func (l *Ledger) forget() {
	if len(l.tallies) <= 2*maxTallies {
		return
	}
	keys := slices.SortedFunc(maps.Keys(l.tallies), func(a, b tallyKey) int {
		return cmp.Compare(l.tallies[b].turn, l.tallies[a].turn)
	})
	for _, key := range keys[maxTallies:] {
		if l.tallies[key].turn < l.turn {
			delete(l.tallies, key)
		}
	}
}

// sinceLast moves at to taken and returns the seconds between them: 0 where it is
// the first value, no newer one, or so late that nobody saw what happened.
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

// addBusy adds the share of the card that was computing over the time since the
// value before: DCGM's ratio is a mean over just that time. A cut card is its
// instances and adds nothing itself.
func (t *tally) addBusy(s *subject, maxGap time.Duration) {
	if weight, ok := weight(s.entity); ok && s.busy.known && !s.split {
		t.busy += s.busy.value * weight * sinceLast(&t.busyAt, s.busy.taken, maxGap)
	}
}

// addEnergy follows the driver's counter, which begins anew when the driver is
// loaded: ours never falls. It starts where the driver's stands.
func (t *tally) addEnergy(s *subject) {
	v, ok := s.number(fieldEnergyMilli)
	if !ok || s.entity.Kind != GPU || !v.Time.After(t.energyAt) || v.Number < 0 || math.IsInf(v.Number, 0) {
		return
	}
	raw := v.Number / 1000
	grown := raw - t.raw
	switch most := maxCardWatts * v.Time.Sub(t.energyAt).Seconds(); {
	case t.energyAt.IsZero():
		t.joules = raw
	case grown >= 0 && grown <= most:
		t.joules += grown
	case grown < 0 && raw <= most:
		t.joules += raw // it began anew
	}
	t.raw, t.energyAt = raw, v.Time
}

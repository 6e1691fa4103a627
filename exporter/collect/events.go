package collect

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Event is something that happened on a GPU, or a sample of it.
type Event struct {
	Time time.Time
	Code int64 // XID, or bits of throttle reasons
	// Instance is the id of the GPU instance that an XID is recorded on; empty for the GPU.
	Instance string
}

// EventCount is the newest event of a code and place, and how many there were since the source
// was opened.
type EventCount struct {
	Event     // an XID, or one bit of throttle reasons
	Total int // each once, over all connections
}

// concerns reports whether an event on one instance is shown on another; "" is the whole GPU.
// The GPU shows all events, and each instance shows the GPU's.
func concerns(on, of string) bool { return on == "" || of == "" || on == of }

// totals returns how many XIDs an instance shows, by code; for "" the GPU.
func (e *Events) totals(of string) map[int64]int {
	totals := map[int64]int{}
	for _, x := range e.XIDs {
		if concerns(x.Instance, of) {
			totals[x.Code] += x.Total
		}
	}
	return totals
}

// Events are what happened on a GPU. They are cumulative: a skipped reading
// loses none.
type Events struct {
	XIDs         []EventCount // by code and place
	RecentXIDs   []Event      // of the log's window, oldest first
	ClockChanges []EventCount // throttle reasons that set in, by bit
	ClockSamples []Event      // of the log's window, oldest first
	// Listening means that the source receives XIDs: without an entry, none has
	// occurred.
	Listening bool
	// Returned is when the GPU last came back after it was lost or released, or after
	// what reads it was restarted; zero if that never happened. XIDs before it are
	// history.
	Returned time.Time
}

// maxKept bounds the events kept of one GPU, whatever the window.
const maxKept = 1 << 16

// EventLog gathers the events of one GPU for a Source. It is for one goroutine;
// what Snapshot gave stays as it is.
type EventLog struct {
	window time.Duration
	// xids and clocks count by code and place, and by bit; the keys have no time.
	xids, clocks map[Event]EventCount
	known        []Event // XIDs by time, also from before the window: a source may hand them in again
	samples      []Event // of the throttle reasons, by time
	last         Event   // the newest XID; zero without any
	returned     time.Time
	away         bool
	awayUntil    time.Time // zero: until it answers
	energy       Value     // the driver's counter, as last read
}

const (
	// maxXIDs bounds the XIDs kept of one GPU. A source that connects again hands them in again,
	// however old they are: what is older than all that are kept does not count.
	maxXIDs = 1 << 13
	// setBack is how much older than the last sample a new one must be to show that the clock
	// was set back.
	setBack = time.Minute
	// sameEvent is the longest time between two records of one XID, for the XIDs of
	// kernelLogged.
	sameEvent = time.Minute
)

// isNews reports whether a sample is later than the last, or from a clock that was set
// back since.
func isNews(taken, last time.Time) bool { return taken.After(last) || last.Sub(taken) > setBack }

// kernelLogged reports whether DCGM records an XID twice, from NVML and from the kernel
// log. It reads the log again at each start, and each record has another time.
func kernelLogged(xid int64) bool { return xid == 79 || xid == 119 || xid == 120 }

// NewEventLog returns a log that keeps single events for a window; 0 is 5 minutes.
func NewEventLog(window time.Duration) *EventLog {
	return &EventLog{window: cmp.Or(window, eventWindow), xids: map[Event]EventCount{}, clocks: map[Event]EventCount{}}
}

// AddXID counts an XID and reports whether it is new. It does not count an XID again that
// has the same time and code, or that the kernel log repeats.
func (l *EventLog) AddXID(e Event) bool {
	at, found := slices.BinarySearchFunc(l.known, e, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Code, b.Code))
	})
	repeats := func(k Event) bool { return k.Code == e.Code && k.Time.Sub(e.Time).Abs() < sameEvent }
	forgotten := at == 0 && len(l.known) == maxXIDs // it may have been counted
	if found || forgotten || kernelLogged(e.Code) && slices.ContainsFunc(l.known, repeats) {
		return false
	}
	if at < len(l.known) {
		l.known = slices.Clone(l.known) // a Snapshot may hold the old array
	}
	l.known = slices.Insert(l.known, at, e)
	l.known = l.known[max(0, len(l.known)-maxXIDs):]
	count(l.xids, e)
	if !e.Time.Before(l.last.Time) {
		l.last = e
	}
	return true
}

// AmendXID puts the last XID among a GPU's values, where the source's own value is older or
// absent: a GPU that falls off the bus reads blank before its XID 79 can be read.
func (l *EventLog) AmendXID(values []Value) []Value {
	at, found := slices.BinarySearchFunc(values, FieldXID, func(v Value, f int) int { return int(v.Field) - f })
	if l.last.Code == 0 || found && values[at].Number != 0 && !l.last.Time.After(values[at].Time) {
		return values
	}
	if !found {
		values = slices.Insert(values, at, Value{})
	}
	values[at] = Value{Field: FieldXID, Number: float64(l.last.Code), Time: l.last.Time}
	return values
}

// Knows reports whether this very XID was added before. It is false for an XID that the
// kernel log repeats.
func (l *EventLog) Knows(e Event) bool {
	return !kernelLogged(e.Code) && slices.ContainsFunc(l.known, func(k Event) bool { return k.Code == e.Code && k.Time.Equal(e.Time) })
}

// addClocks adds a sample of the throttle reasons. Samples not newer than the
// last are taken as seen, unless they are so much older that the clock was set
// back. The reasons of the first sample do not count as set in: they may be
// older.
func (l *EventLog) addClocks(e Event) {
	if n := len(l.samples); n > 0 && l.samples[n-1].Time.Sub(e.Time) > setBack {
		l.samples = nil
	}
	if n := len(l.samples); n > 0 {
		last := l.samples[n-1]
		if !e.Time.After(last.Time) {
			return
		}
		for began := e.Code &^ last.Code; began != 0; began &= began - 1 {
			count(l.clocks, Event{Time: e.Time, Code: began & -began})
		}
	}
	l.samples = append(l.samples, e)
}

// Away records that the GPU was lost or released, or that what reads it was restarted: it
// may have been reset meanwhile. Once it answers, XIDs from before the time until are
// history; with a zero time, all XIDs from before it answered.
func (l *EventLog) Away(until time.Time) { l.away, l.awayUntil = true, until }

// Restarted is Away for a source that was restarted: it knows the last XID only
// if that is newer than the restart.
func (l *EventLog) Restarted(at time.Time) {
	l.Away(at)
	l.last = Event{}
}

// Observe records a reading's values of the GPU. It reports whether the GPU has returned:
// it answers after it was away, or its energy counter has fallen. A reset or a new driver
// restarts that counter.
func (l *EventLog) Observe(e *Entity, answers bool, now time.Time) (returned bool) {
	if v, ok := e.Value(fieldEnergyMilli); ok && isNews(v.Time, l.energy.Time) {
		if v.Number < l.energy.Number {
			l.Away(time.Time{})
		}
		l.energy = v
	}
	if v, ok := e.Value(fieldClockEvents); ok {
		l.addClocks(Event{Time: v.Time, Code: int64(v.Number)})
	}
	if !l.away || !answers {
		return false
	}
	l.away, l.returned = false, l.awayUntil
	if l.returned.IsZero() {
		l.returned = now
	}
	return true
}

func count(counts map[Event]EventCount, e Event) {
	key := Event{Code: e.Code, Instance: e.Instance}
	c := counts[key]
	if c.Total++; !e.Time.Before(c.Time) {
		c.Event = e
	}
	counts[key] = c
}

// Snapshot returns the events as of now and forgets samples older than the
// window; the newest stays, however old.
func (l *EventLog) Snapshot(now time.Time) *Events {
	oldest := now.Add(-l.window)
	recent := since(l.known, oldest)
	if n := len(l.samples); n > 0 {
		l.samples = l.samples[min(n-1, n-len(since(l.samples, oldest))):]
	}
	return &Events{
		XIDs: byCode(l.xids), RecentXIDs: recent[:len(recent):len(recent)],
		ClockChanges: byCode(l.clocks), ClockSamples: l.samples[:len(l.samples):len(l.samples)],
		Returned: l.returned,
	}
}

// since returns the events that are not older than a time, at most the newest
// maxKept.
func since(events []Event, oldest time.Time) []Event {
	first, _ := slices.BinarySearchFunc(events, oldest, func(e Event, t time.Time) int { return e.Time.Compare(t) })
	return events[max(first, len(events)-maxKept):]
}

func byCode(counts map[Event]EventCount) []EventCount {
	return slices.SortedFunc(maps.Values(counts), func(a, b EventCount) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Instance, b.Instance))
	})
}

package dcgm

import (
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// xidLog remembers each card's last XID. The last value of the field alone
// would not do: a card that falls off the bus reads blank from then on, and its
// XID 79 would never be seen.
type xidLog struct {
	watch int // which of the session's watches has the events
	since time.Time
	last  map[uint32]event
}

func newXIDLog(now time.Time) xidLog {
	return xidLog{since: now, last: map[uint32]event{}}
}

// update reads the events since the last one.
func (l *xidLog) update(s *session) error {
	events, err := readEvents(s.watches[l.watch], l.since)
	if err != nil {
		return err
	}
	for _, e := range events {
		l.last[e.gpu] = e
		l.since = e.at.Add(time.Microsecond)
	}
	return nil
}

// amend gives the last XID of a card: of the value DCGM has, if any, and the
// last event the later one.
func (l *xidLog) amend(gpu uint32, v collect.Value, ok bool) (collect.Value, bool) {
	e, seen := l.last[gpu]
	if !seen || ok && v.Number != 0 && !e.at.After(v.Time) {
		return v, ok
	}
	return collect.Value{Field: fieldXID, Number: float64(e.code), Time: e.at}, true
}

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// maxEvents bounds how many events one Read takes; the driver queues the rest.
const maxEvents = 256

// events hears of XIDs through NVML's event set.
type events struct {
	lib        *library
	set        nvml.EventSet
	usable     bool
	registered map[string]bool // by card UUID: whether events of it are heard
}

func newEvents(lib *library) *events {
	e := &events{lib: lib, registered: map[string]bool{}}
	for _, name := range []string{"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents"} {
		if !lib.has(name) {
			return e
		}
	}
	set, ret := lib.EventSetCreate()
	e.set, e.usable = set, ret == nvml.SUCCESS
	return e
}

func (e *events) close() {
	if e.usable {
		e.set.Free()
	}
}

// hear registers a card once and reports whether its XIDs are heard.
func (e *events) hear(uuid string, card nvml.Device) bool {
	if !e.usable {
		return false
	}
	heard, known := e.registered[uuid]
	if !known {
		heard = card.RegisterEvents(nvml.EventTypeXidCriticalError, e.set) == nvml.SUCCESS
		e.registered[uuid] = heard
	}
	return heard
}

// take hands over the events since the last call.
func (e *events) take(got func(card nvml.Device, code int64)) {
	for range maxEvents {
		if !e.usable {
			return
		}
		event, ret := e.set.Wait(0)
		if ret != nvml.SUCCESS {
			return // NVML_ERROR_TIMEOUT: there is none
		}
		if event.EventType == nvml.EventTypeXidCriticalError {
			got(event.Device, int64(event.EventData))
		}
	}
}

// cardLog gathers what happened on one card.
type cardLog struct {
	*collect.EventLog
	last collect.Event // the last XID
	lost bool          // as of the last read
}

func (l *cardLog) xid(code int64, at time.Time) {
	l.last = collect.Event{Time: at, Code: code}
	l.AddXID(l.last)
}

// seen notes a read of the card: that it has come back, and its throttle
// reasons.
func (l *cardLog) seen(card *collect.Entity, now time.Time) {
	if l.lost && !card.Lost {
		l.Returned(now)
	}
	l.lost = card.Lost
	if v, ok := card.Value(fieldClocks); ok {
		l.AddClocks(collect.Event{Time: v.Time, Code: int64(v.Number)})
	}
}

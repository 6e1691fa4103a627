package dcgm

// #include "shim.h"
import "C"

import (
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// defaultEventWindow is how far back dcgm-exporter's counts look.
	defaultEventWindow = 5 * time.Minute
	// xidKeep is how long the host engine keeps XIDs: longer than any known
	// hang of a call.
	xidKeep = 10 * time.Minute
	// clockKeep does the same for samples of the throttle reasons.
	clockKeep = time.Minute
	// xidOverlap is how far each request reaches back before the newest known
	// XID, since the host engine may record one late.
	xidOverlap = 10 * time.Second
	// firstEvents is the initial size of the buffer for one answer.
	firstEvents = 256
	// maxEvents bounds one answer, far above what GPUs have in the time kept;
	// the rest is left out.
	maxEvents = 1 << 20
)

// events are the GPUs' events so far; they outlive the connection. The last
// value of a field is not enough: of two XIDs between two readings one is lost,
// and a GPU that falls off the bus reads blank from then on, so that its XID 79
// is never read.
type events struct {
	start     time.Time
	window    time.Duration
	logs      map[string]*collect.EventLog // by the GPU's UUID
	last      map[string]collect.Event     // the newest XID of a GPU
	newestXID time.Time
	newest    time.Time // sample of the throttle reasons
	buffer    []C.shim_event

	xids, clocks *watch // of this session; nil where not watched
}

func newEvents(start time.Time, window time.Duration) events {
	if window <= 0 {
		window = defaultEventWindow
	}
	return events{
		start: start, window: window, logs: map[string]*collect.EventLog{}, last: map[string]collect.Event{},
		buffer: make([]C.shim_event, firstEvents),
	}
}

// log returns a GPU's log.
func (e *events) log(uuid string) *collect.EventLog {
	if e.logs[uuid] == nil {
		e.logs[uuid] = collect.NewEventLog(e.window)
	}
	return e.logs[uuid]
}

// watchEvents watches the fields that are read since a time.
func (r *reader) watchEvents() error {
	r.events.xids, r.events.clocks = nil, nil
	if !hasSymbol(symbolEvents) {
		return nil
	}
	if r.fields.wants(fieldXID) {
		w, err := r.session.watchOne(r.layout.gpuKeys(), fieldXID, r.every, xidKeep)
		if err != nil {
			return err
		}
		r.events.xids = w
	}
	if r.fields.asks(collect.AskClockEvents) {
		w, err := r.session.watchOne(r.layout.gpuKeys(), fieldClocks, r.every, max(clockKeep, 3*r.every))
		if err != nil {
			return err
		}
		r.events.clocks = w
	}
	return nil
}

// readEvents requests the events since the last reading. A failure that does
// not sever the connection leaves the events for the next time.
func (r *reader) readEvents(now time.Time) error {
	e := &r.events
	if now.Before(e.start) {
		e.start = now.Add(-xidOverlap) // the clock was set back, and events carry its time
	}
	err := e.each(e.xids, e.since(e.newestXID, now, xidOverlap), func(gpu uint32, at time.Time, code int64) {
		uuid := r.uuidOf(gpu)
		if code <= 0 || code >= int32Blank || at.Before(e.start) || uuid == "" {
			return
		}
		x := collect.Event{Time: at, Code: code}
		if e.log(uuid).AddXID(x) && !x.Time.Before(e.last[uuid].Time) {
			e.last[uuid] = x
		}
		e.newestXID = later(e.newestXID, at)
	})
	if err == nil {
		err = e.each(e.clocks, e.since(e.newest, now, r.every), func(gpu uint32, at time.Time, bits int64) {
			if uuid := r.uuidOf(gpu); bits >= 0 && bits < int32Blank && uuid != "" {
				e.log(uuid).AddClocks(collect.Event{Time: at, Code: bits})
				e.newest = later(e.newest, at)
			}
		})
	}
	if severs(err) {
		return err
	}
	r.complain("events", err)
	return nil
}

// since returns the start of the next request. A newest event in the future is
// ignored: the clock was set back.
func (e *events) since(newest, now time.Time, overlap time.Duration) time.Time {
	if newest.IsZero() {
		return e.start
	}
	if now.Before(newest) {
		newest = now
	}
	return later(e.start, newest.Add(-overlap))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// each calls got for every sample since a time, GPU by GPU in order. A nil
// watch has none.
func (e *events) each(w *watch, since time.Time, got func(gpu uint32, at time.Time, number int64)) error {
	if w == nil {
		return nil
	}
	for {
		var n C.int
		code := C.shim_events(C.uintptr_t(hostHandle), C.uintptr_t(w.group.GetHandle()), C.uintptr_t(w.fields.GetHandle()),
			C.int64_t(since.UnixMicro()), &e.buffer[0], C.int(len(e.buffer)), &n)
		if code == codeNoData || code == codeNotWatched {
			return nil
		}
		if code != 0 {
			return callError("reading events", code)
		}
		if int(n) > len(e.buffer) && len(e.buffer) < maxEvents {
			e.buffer = make([]C.shim_event, min(2*int(n), maxEvents))
			continue
		}
		for _, x := range e.buffer[:min(int(n), len(e.buffer))] {
			got(uint32(x.gpu), time.UnixMicro(int64(x.ts)), int64(x.number))
		}
		return nil
	}
}

// amend gives a GPU's last XID as its field's value: the later one of DCGM's
// value, if any, and the last event.
func (e *events) amend(uuid string, v collect.Value, ok bool) (collect.Value, bool) {
	x, seen := e.last[uuid]
	if !seen || ok && v.Number != 0 && !x.Time.After(v.Time) {
		return v, ok
	}
	return collect.Value{Field: fieldXID, Number: float64(x.Code), Time: x.Time}, true
}

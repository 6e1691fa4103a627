package dcgm

import (
	"maps"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const (
	// xidKeep is how long the host engine keeps XIDs: longer than any known
	// hang of a call.
	xidKeep = 10 * time.Minute
	// clockKeep does the same for samples of the throttle reasons.
	clockKeep = time.Minute
	// xidOverlap is how far each request reaches back before the newest known
	// XID, since the host engine may record one late.
	xidOverlap = 10 * time.Second
)

// events are the GPUs' events so far; they outlive the connection. The last
// value of a field is not enough: of two XIDs between two readings one is lost,
// and a GPU that falls off the bus reads blank from then on, so that its XID 79
// is never read.
type events struct {
	start     time.Time
	window    time.Duration
	logs      map[string]*collect.EventLog // by the GPU's UUID
	newestXID time.Time
	newest    time.Time // sample of the throttle reasons
	// lostAt is when the last connection was lost, until the XIDs that the host engine has
	// now have been read; zero otherwise.
	lostAt time.Time

	xids, clocks *watch // of this session; nil where not watched
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
		// In MIG mode DCGM records an XID of the instance that it knows to be concerned there.
		all := slices.Collect(maps.Keys(r.layout.owners))
		w, err := r.session.watchOne(all, fieldXID, r.every, xidKeep)
		if w == nil && err == nil && len(all) > len(r.layout.gpus) { // refused of instances
			w, err = r.session.watchOne(r.layout.gpuKeys(), fieldXID, r.every, xidKeep)
		}
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
	since := e.since(e.newestXID, now, xidOverlap)
	if !e.lostAt.IsZero() {
		since = e.start // all that the host engine has
	}
	var found []collect.Event
	var uuids []string
	err := each(e.xids, since, func(key entityKey, at time.Time, code int64) {
		of, known := r.layout.owners[key]
		if uuid := r.uuidOf(of.gpu); known && uuid != "" && code > 0 && code < godcgm.DCGM_FT_INT32_BLANK && !at.Before(e.start) {
			found, uuids = append(found, collect.Event{Time: at, Code: code, Instance: of.instance}), append(uuids, uuid)
		}
	})
	if err == nil {
		r.detectRestart(found, uuids)
		for i, x := range found {
			e.log(uuids[i]).AddXID(x)
			e.newestXID = later(e.newestXID, x.Time)
		}
		err = each(e.clocks, e.since(e.newest, now, r.every), func(key entityKey, at time.Time, bits int64) {
			if uuid := r.uuidOf(key.id); key.kind == kindGPU && bits >= 0 && bits < godcgm.DCGM_FT_INT32_BLANK && uuid != "" {
				e.log(uuid).AddClocks(collect.Event{Time: at, Code: bits})
				e.newest = later(e.newest, at)
			}
		})
	}
	return r.tolerated("events", err)
}

// detectRestart tells a connection that was made again from a host engine that was: one that
// knows an XID of before runs since then. While none ran GPUs may have been reset.
func (r *reader) detectRestart(found []collect.Event, uuids []string) {
	e := &r.events
	if e.lostAt.IsZero() {
		return
	}
	same := false
	for i, x := range found {
		same = same || e.log(uuids[i]).Knows(x)
	}
	if !same {
		for _, log := range e.logs {
			log.Restarted(e.lostAt)
		}
	}
	e.lostAt = time.Time{}
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

// each calls got for every number since a time, entity by entity in order. A nil watch has none.
func each(w *watch, since time.Time, got func(key entityKey, at time.Time, number int64)) error {
	if w == nil {
		return nil
	}
	samples, _, err := godcgm.GetValuesSince(w.group, w.fields, since)
	err = refusal("reading events", err)
	if code := codeOf(err); code == godcgm.DCGM_ST_NO_DATA || code == godcgm.DCGM_ST_NOT_WATCHED {
		return nil
	}
	for i := range samples {
		if v := &samples[i]; v.Status == 0 && v.FieldType == godcgm.DCGM_FT_INT64 {
			got(entityKey{uint32(v.EntityGroupId), uint32(v.EntityID)}, time.UnixMicro(v.TS), v.Int64())
		}
	}
	return err
}

package dcgm

import (
	"slices"
	"strconv"
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

	xids, clocks []watch // of this session
}

// log returns a GPU's log.
func (e *events) log(uuid string) *collect.EventLog {
	if e.logs[uuid] == nil {
		e.logs[uuid] = collect.NewEventLog(e.window)
	}
	return e.logs[uuid]
}

// watchEvents watches the fields that are read since a time.
func (r *reader) watchEvents() (err error) {
	r.events.xids, r.events.clocks = nil, nil
	gpus := r.keys(kindGPU)
	if r.fields.wantsXIDs() {
		// In MIG mode DCGM records an XID of the instance that it knows to be concerned there.
		all := slices.Concat(gpus, r.keys(kindInstance), r.keys(kindCompute))
		for _, keys := range [][]entityKey{all, gpus} { // where it is refused of instances
			if err == nil && len(r.events.xids) == 0 {
				r.events.xids, err = r.session.watch(rectangle{keys, []uint16{fieldXID}}, r.every, xidKeep)
			}
		}
	}
	if err == nil && r.fields.asks(collect.AskClockEvents) {
		r.events.clocks, err = r.session.watch(rectangle{gpus, []uint16{fieldClocks}}, r.every, max(clockKeep, 3*r.every))
	}
	return err
}

// found is an event with the log of its GPU.
type found struct {
	collect.Event
	log *collect.EventLog
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
	xids, err := r.eventsSince(e.xids, since)
	if err == nil {
		xids = slices.DeleteFunc(xids, func(x found) bool { return x.Code == 0 || x.Time.Before(e.start) })
		e.detectRestart(xids)
		for _, x := range xids {
			x.log.AddXID(x.Event)
			e.newestXID = later(e.newestXID, x.Time)
		}
		var clocks []found
		clocks, err = r.eventsSince(e.clocks, e.since(e.newest, now, r.every))
		for _, c := range clocks {
			c.log.AddClocks(c.Event)
			e.newest = later(e.newest, c.Time)
		}
	}
	return r.tolerated("events", err)
}

// detectRestart tells a connection that was made again from a host engine that was: one that
// knows an XID of before runs since then. While none ran GPUs may have been reset.
func (e *events) detectRestart(xids []found) {
	if e.lostAt.IsZero() {
		return
	}
	if !slices.ContainsFunc(xids, func(x found) bool { return x.log.Knows(x.Event) }) {
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

// eventsSince gives the numbers that are known of GPUs and their instances since a time, entity by
// entity in order.
func (r *reader) eventsSince(watches []watch, since time.Time) (out []found, err error) {
	for _, w := range watches {
		samples, _, err := godcgm.GetValuesSince(w.group, w.handle, since)
		err = refusal("reading events", err)
		if code := codeOf(err); code == godcgm.DCGM_ST_NO_DATA || code == godcgm.DCGM_ST_NOT_WATCHED {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range samples {
			v := &samples[i]
			key := entityKey{uint32(v.EntityGroupId), uint32(v.EntityID)}
			at := slices.IndexFunc(r.layout, func(e entity) bool { return e.entityKey == key })
			if at < 0 || v.Status != 0 || v.FieldType != godcgm.DCGM_FT_INT64 {
				continue
			}
			e, number := r.layout[at], v.Int64()
			if uuid := r.uuidOf(e); uuid != "" && number >= 0 && number < godcgm.DCGM_FT_INT32_BLANK {
				event := collect.Event{Time: time.UnixMicro(v.TS), Code: number}
				if e.kind != kindGPU {
					event.Instance = strconv.Itoa(e.number)
				}
				out = append(out, found{event, r.events.log(uuid)})
			}
		}
	}
	return out, nil
}

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
	// xidOverlap is how far each request reaches back before the newest known
	// XID, since the host engine may record one late.
	xidOverlap = 10 * time.Second
	// xidLate is how long after a new XID they are requested once more, to find late ones.
	xidLate = 30 * time.Second
)

// events are the GPUs' events so far; they outlive the connection. The field's last
// value is not enough for XIDs: it shows one of two between two readings. A GPU
// that falls off the bus reads blank from then on, so the field never shows its XID
// 79.
type events struct {
	start     time.Time
	window    time.Duration
	logs      map[string]*collect.EventLog // by the GPU's UUID
	newestXID time.Time
	// lostAt is when the last connection was lost. It is zero once the XIDs of the new
	// connection have been read.
	lostAt time.Time

	xids   []watch   // of this session
	newest []int64   // time of each entity's last XID, in this reading
	last   []int64   // the same when XIDs were last requested; nil before
	late   time.Time // when XIDs are requested even if newest has not changed; zero: never
}

// log returns a GPU's log.
func (e *events) log(uuid string) *collect.EventLog {
	if e.logs[uuid] == nil {
		e.logs[uuid] = collect.NewEventLog(e.window)
	}
	return e.logs[uuid]
}

// watch watches XIDs with their history, for readSince.
func (e *events) watch(to *session, l layout, s *sampling) (err error) {
	e.xids, e.last = nil, nil
	if !s.fields.wantsXIDs() {
		return nil
	}
	// In MIG mode DCGM records an XID on the instance that it concerns, if it knows that
	// one.
	gpus := l.keys(kindGPU)
	all := slices.Concat(gpus, l.keys(kindInstance), l.keys(kindCompute))
	for _, keys := range [][]entityKey{all, gpus} { // only GPUs, if instances are refused
		if err == nil && len(e.xids) == 0 {
			e.xids, err = to.watch(rectangle{keys, []uint16{collect.FieldXID}}, s.every, xidKeep)
		}
	}
	return err
}

// found is an event with the log of its GPU.
type found struct {
	collect.Event
	log *collect.EventLog
}

// read requests the XIDs since the newest known one, but only if some entity's last XID has changed:
// for XIDs DCGM makes one request for each entity, for values a single one. After a failure the XIDs
// are requested with the next reading.
func (e *events) read(l layout, known identities, now time.Time) error {
	late := now.Add(xidLate)
	if e.last != nil && slices.Equal(e.newest, e.last) {
		if e.late.IsZero() || now.Before(e.late) {
			return nil
		}
		late = time.Time{}
	}
	if now.Before(e.start) {
		e.start = now.Add(-xidOverlap) // the clock was set back, and events carry its time
	}
	xids, err := e.readSince(e.since(now), l, known)
	if err != nil {
		return err
	}
	e.last, e.late = slices.Clone(e.newest), late
	xids = slices.DeleteFunc(xids, func(x found) bool { return x.Code == 0 || x.Time.Before(e.start) })
	e.detectRestart(xids)
	for _, x := range xids {
		x.log.AddXID(x.Event)
		e.newestXID = later(e.newestXID, x.Time)
	}
	return nil
}

// detectRestart finds out whether a new connection is to a host engine that was started
// again. One that knows an XID from before was not. While no host engine ran, GPUs may have
// been reset.
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

// since returns the start of the next request. The first request over a connection is for everything
// since the source was opened. A newest XID in the future is ignored: the clock was set back.
func (e *events) since(now time.Time) time.Time {
	newest := e.newestXID
	if newest.IsZero() || !e.lostAt.IsZero() {
		return e.start
	}
	if now.Before(newest) {
		newest = now
	}
	return later(e.start, newest.Add(-xidOverlap))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// readSince gives the XIDs that the host engine has of GPUs and their instances since a time, entity
// by entity in order.
func (e *events) readSince(since time.Time, l layout, known identities) (out []found, err error) {
	for _, w := range e.xids {
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
			at := slices.IndexFunc(l, func(e entity) bool { return e.entityKey == key })
			if at < 0 || v.Status != 0 || v.FieldType != godcgm.DCGM_FT_INT64 {
				continue
			}
			of, number := l[at], v.Int64()
			if uuid := known.uuidOf(of); uuid != "" && number >= 0 && number < godcgm.DCGM_FT_INT32_BLANK {
				event := collect.Event{Time: time.UnixMicro(v.TS), Code: number}
				if of.kind != kindGPU {
					event.Instance = strconv.Itoa(of.number)
				}
				out = append(out, found{event, e.log(uuid)})
			}
		}
	}
	return out, nil
}

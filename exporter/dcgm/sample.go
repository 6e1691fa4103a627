package dcgm

// #include "shim.h"
import "C"

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// sample reads all values in a few calls and puts a Reading together.
func (r *reader) sample() (*collect.Reading, error) {
	now := r.options.now()
	out := &collect.Reading{Taken: now, Dropped: map[string]int{}}
	r.events.newest = r.events.newest[:0]
	values, err := r.values("values", r.reads, 0, out.Dropped)
	if err == nil {
		err = r.complaints.tolerated("events", r.events.read(r.layout, r.known, now))
	}
	if err == nil {
		err = r.readSlow()
	}
	if err != nil {
		return nil, err
	}
	there := false // whether the GPU of the following instances is there
	for _, e := range r.layout {
		known, of := r.known[e.entityKey], values[e.entityKey]
		switch e.kind {
		case kindGPU:
			if there = known.UUID != ""; !there { // without a UUID it has no labels
				out.Dropped[collect.DropError]++
				continue
			}
			gpu := *known
			gpu.Values = of
			if there = r.describe(e.id, &gpu, now); there {
				out.Entities = append(out.Entities, gpu)
			}
		case kindInstance:
			if there {
				instance := *known
				instance.Values = of
				out.Entities = append(out.Entities, instance)
			}
		case kindCompute: // of which only the XIDs are read
		default:
			if len(of) > 0 {
				out.Devices = append(out.Devices, r.device(e, of, out.Entities))
			}
		}
	}
	return out, r.detectStuck(out, now)
}

// device returns a device beside the GPUs; a GPU's link has the GPU's identity, and any device the machine's driver.
func (r *reader) device(e entity, values []collect.Value, gpus []collect.Entity) (d collect.Entity) {
	if gpu := r.known[e.parent]; gpu != nil {
		d = *gpu
	}
	if len(gpus) > 0 {
		d.DriverVersion = gpus[0].DriverVersion
	}
	d.Kind, d.DCGMID, d.Parent, d.Values = deviceKinds[[2]uint32{e.kind, e.parent.kind}], e.number, int(e.parent.id), values
	return d
}

// describe adds what is known of a GPU beside its values, and reports whether it is there.
func (r *reader) describe(id uint32, gpu *collect.Entity, now time.Time) (there bool) {
	there = r.detectLoss(id, gpu, now)
	log := r.events.log(gpu.UUID)
	if r.fields.wantsXIDs() {
		gpu.Values = log.AmendXID(gpu.Values)
	}
	if len(r.events.xids) > 0 {
		gpu.Events = log.Snapshot(now)
		gpu.Events.Listening = true
	}
	gpu.Peers = r.slow.peers[id]
	if !gpu.Lost { // DCGM's health watches skip a lost GPU
		gpu.Health = r.slow.health[id]
	}
	return there
}

// values returns the values of each entity in the order of the fields: the watched samples, or with the flag
// SHIM_LIVE the driver's values. An entity that fails is counted as one error.
func (r *reader) values(part string, what []rectangle, flags C.uint, dropped map[string]int) (map[entityKey][]collect.Value, error) {
	out := make(map[entityKey][]collect.Value, len(r.layout))
	now, refused := r.options.now(), error(nil)
	for _, w := range what {
		err := r.buffer.latest(w, flags, func(entity int, raw *C.shim_value) {
			key := w.entities[entity]
			if raw.field == collect.FieldXID {
				r.events.newest = append(r.events.newest, int64(raw.ts))
			}
			v, reason := judge(raw)
			if reason == "" && flags == 0 && v.Time.After(now.Add(maxAhead)) {
				reason = collect.DropImpossible
			}
			switch {
			case reason == "":
				if out[key] == nil {
					out[key] = make([]collect.Value, 0, len(w.fields))
				}
				out[key] = append(out[key], v)
			case counts(key.kind, v.Field, reason):
				dropped[reason]++
			}
		}, func(entity int, err error) {
			dropped[collect.DropError]++
			if key := w.entities[entity]; refused == nil {
				refused = fmt.Errorf("%s %d: %w", kindName(key.kind), key.id, err)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	r.complaints.note(part, refused)
	return out, nil
}

// counts reports whether a dropped value is counted. A blank XID is not, since there was none. Of
// switches, links and CPUs only impossible values and errors are counted: most of their fields are
// blank.
func counts(kind uint32, field uint16, reason string) bool {
	if kind == kindGPU || kind == kindInstance {
		return field != collect.FieldXID || reason != collect.DropBlank
	}
	return reason == collect.DropImpossible || reason == collect.DropError
}

package dcgm

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// sample reads all values in a few calls and puts a Reading together.
func (r *reader) sample() (*collect.Reading, error) {
	now := r.options.now()
	reading := &collect.Reading{Taken: now, Dropped: map[string]int{}}
	values, err := r.values(reading.Dropped)
	if err != nil {
		return nil, err
	}
	if err := r.readEvents(now); err != nil {
		return nil, err
	}
	if err := r.readSlow(now); err != nil {
		return nil, err
	}
	if n := len(r.fields.unknown)*len(r.layout.gpus) + r.refused; n > 0 {
		reading.Dropped[collect.DropNotSupported] += n
	}
	reading.Devices = r.sampledDevices(values)
	reading.Entities = r.entities(values, now, reading.Dropped)
	return reading, r.detectStuck(reading, now)
}

// values reads what is watched: the values of each entity, sorted by field. An entity that
// fails is counted as an error of one.
func (r *reader) values(dropped map[string]int) (map[entityKey][]collect.Value, error) {
	out := make(map[entityKey][]collect.Value, len(r.layout.gpus)+len(r.layout.instances)+len(r.layout.devices))
	now, refused := r.options.now(), error(nil)
	for _, part := range r.reads {
		err := r.buffer.latest(part.entities, part.fields, func(entity int, raw *C.shim_value) {
			v, reason := judge(raw, now)
			if reason != "" {
				if r.fields.counts(v.Field, reason) {
					dropped[reason]++
				}
				return
			}
			key := part.entities[entity]
			if out[key] == nil {
				out[key] = make([]collect.Value, 0, len(part.fields))
			}
			out[key] = append(out[key], v)
		}, func(entity int, err error) {
			dropped[collect.DropError]++
			if key := part.entities[entity]; refused == nil {
				refused = fmt.Errorf("%s %d: %w", godcgm.Field_Entity_Group(key.kind), key.id, err)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	r.complain("values of entities", refused)
	return out, nil
}

// entities lists GPUs, each followed by its instances. A GPU without a known
// UUID has no labels and is counted as an error.
func (r *reader) entities(values map[entityKey][]collect.Value, now time.Time, dropped map[string]int) []collect.Entity {
	out := make([]collect.Entity, 0, len(r.layout.gpus)+len(r.layout.instances))
	for _, gpu := range r.layout.gpus {
		known, of := r.devs[gpu], values[entityKey{kindGPU, gpu}]
		for _, v := range of {
			identify(known, v)
		}
		if known.UUID == "" {
			dropped[collect.DropError]++
			continue
		}
		dev, log := *known, r.events.log(known.UUID)
		dev.Values = r.wantedOnly(of)
		if !r.detectLoss(gpu, &dev, now) {
			continue
		}
		if r.fields.wants(fieldXID) {
			dev.Values = log.AmendXID(dev.Values)
		}
		if r.events.xids != nil || r.events.clocks != nil {
			dev.Events = log.Snapshot(now)
			dev.Events.Listening = r.events.xids != nil
		}
		dev.Health, dev.Peers = r.slow.health[gpu], r.slow.peers[gpu]
		out = append(out, dev)
		out = r.appendInstances(out, gpu, dev, values)
	}
	return out
}

func (r *reader) appendInstances(out []collect.Entity, gpu uint32, dev collect.Entity, values map[entityKey][]collect.Value) []collect.Entity {
	dev.Events, dev.Health, dev.Peers, dev.Lost = nil, nil, nil, false
	for _, p := range r.layout.instances {
		if p.gpu != gpu {
			continue
		}
		of := values[p.key]
		for _, v := range of {
			if v.Field == fieldUUID {
				r.detectRemade(p.key, v.Text)
			}
		}
		driver, known := r.places[p.key]
		e := instanceEntity(dev, p, driver, known, of)
		e.Values = r.wantedOnly(of)
		out = append(out, e)
	}
	return out
}

// wantedOnly leaves out values that were read for identity only.
func (r *reader) wantedOnly(values []collect.Value) []collect.Value {
	return slices.DeleteFunc(values, func(v collect.Value) bool { return !r.fields.wants(v.Field) })
}

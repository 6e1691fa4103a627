package dcgm

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// sample reads all values in a few calls and puts a Reading together.
func (r *reader) sample() (*collect.Reading, error) {
	now := r.options.now()
	reading := &collect.Reading{Taken: now, Dropped: map[string]int{}}
	devs, err := r.values(r.layout.gpuKeys(), r.fields.gpu, reading.Dropped)
	if err != nil {
		return nil, err
	}
	instances, err := r.values(r.layout.instanceKeys(), r.fields.instance, reading.Dropped)
	if err != nil {
		return nil, err
	}
	if reading.Devices, err = r.sampleDevices(reading.Dropped); err != nil {
		return nil, err
	}
	if err := r.readEvents(now); err != nil {
		return nil, err
	}
	if err := r.readSlow(now); err != nil {
		return nil, err
	}
	if n := len(r.fields.unknown); n > 0 {
		reading.Dropped[collect.DropNotSupported] += n * len(r.layout.gpus)
	}
	reading.Entities, err = r.entities(devs, instances, now, reading.Dropped)
	return reading, err
}

// values reads a rectangle of entities and fields: one list an entity, sorted by
// field. An entity that fails is counted as an error of one.
func (r *reader) values(entities []entityKey, fields []uint16, dropped map[string]int) ([][]collect.Value, error) {
	if len(entities) == 0 {
		return nil, nil
	}
	out := make([][]collect.Value, len(entities))
	all := make([]collect.Value, len(entities)*len(fields))
	for i := range out {
		out[i], all = all[:0:len(fields)], all[len(fields):]
	}
	now := r.options.now()
	err := r.buffer.latest(entities, fields, func(entity int, raw *C.shim_value) {
		v, reason := judge(raw, now)
		if reason != "" {
			if r.fields.counts(v.Field, reason) {
				dropped[reason]++
			}
			return
		}
		out[entity] = append(out[entity], v)
	}, func(entity int, err error) {
		dropped[collect.DropError]++
		r.complain(fmt.Sprint("values of entity ", entities[entity]), err)
	})
	return out, err
}

// entities lists GPUs, each followed by its instances. A GPU without a known
// UUID has no labels and is counted as an error.
func (r *reader) entities(devs, instances [][]collect.Value, now time.Time, dropped map[string]int) ([]collect.Entity, error) {
	out := make([]collect.Entity, 0, len(devs)+len(instances))
	for i, gpu := range r.layout.gpus {
		id := r.devs[gpu]
		for _, v := range devs[i] {
			id.take(v)
		}
		if id.uuid == "" {
			dropped[collect.DropError]++
			continue
		}
		dev := id.entity(gpu)
		dev.Values = r.wantedOnly(devs[i])
		if err := r.detectLoss(gpu, &dev, now); err != nil {
			return nil, err
		}
		dev.Values = r.amendXID(id.uuid, dev.Values)
		if r.events.xids != nil || r.events.clocks != nil {
			dev.Events = r.events.log(id.uuid).Snapshot(now)
		}
		dev.Health, dev.Peers = r.slow.health[gpu], r.slow.peers[gpu]
		out = append(out, dev)
		out = r.appendInstances(out, gpu, dev, instances)
	}
	return out, nil
}

func (r *reader) appendInstances(out []collect.Entity, gpu uint32, dev collect.Entity, values [][]collect.Value) []collect.Entity {
	dev.Events, dev.Health, dev.Peers, dev.Lost = nil, nil, nil, false
	for k, p := range r.layout.instances {
		if p.gpu != gpu {
			continue
		}
		for _, v := range values[k] {
			if v.Field == fieldUUID {
				r.detectRemade(p.key, v.Text)
			}
		}
		driver, known := r.places[p.key]
		e := instanceEntity(dev, p, driver, known, values[k])
		e.Values = r.wantedOnly(values[k])
		out = append(out, e)
	}
	return out
}

// wantedOnly leaves out values that were read for identity only.
func (r *reader) wantedOnly(values []collect.Value) []collect.Value {
	return slices.DeleteFunc(values, func(v collect.Value) bool { return !r.fields.wants(v.Field) })
}

// amendXID replaces the value of a GPU's XID field by its last XID.
func (r *reader) amendXID(uuid string, values []collect.Value) []collect.Value {
	if !r.fields.wants(fieldXID) {
		return values
	}
	at, found := slices.BinarySearchFunc(values, uint16(fieldXID), func(v collect.Value, f uint16) int {
		return int(v.Field) - int(f)
	})
	var old collect.Value
	if found {
		old = values[at]
	}
	v, ok := r.events.amend(uuid, old, found)
	switch {
	case found:
		values[at] = v
	case ok:
		values = slices.Insert(values, at, v)
	}
	return values
}

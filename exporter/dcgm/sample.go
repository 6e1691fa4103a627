package dcgm

// #include "shim.h"
import "C"

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// sample reads all values in a few calls and puts a Reading together.
func (r *reader) sample() (*collect.Reading, error) {
	reading := &collect.Reading{Taken: time.Now(), Dropped: map[string]int{}}
	cards, err := r.values(r.layout.gpuKeys(), r.fields.gpu, reading.Dropped)
	if err != nil {
		return nil, err
	}
	instances, err := r.values(r.layout.instanceKeys(), r.fields.instance, reading.Dropped)
	if err != nil {
		return nil, err
	}
	if r.fields.wants(fieldXID) && hasSymbol(symbolEvents) {
		if err := r.xids.update(r.session); err != nil {
			return nil, err
		}
	}
	if n := len(r.fields.unknown); n > 0 {
		reading.Dropped[dropNotSupported] += n * len(r.layout.gpus)
	}
	reading.Entities = r.entities(cards, instances, reading.Dropped)
	return reading, nil
}

// values reads a rectangle of entities and fields: one list an entity, sorted by
// field. Only what the caller of the
// Source wants is counted when it is dropped.
func (r *reader) values(entities []entityKey, fields []uint16, dropped map[string]int) ([][]collect.Value, error) {
	if len(entities) == 0 {
		return nil, nil
	}
	out := make([][]collect.Value, len(entities))
	all := make([]collect.Value, len(entities)*len(fields))
	for i := range out {
		out[i], all = all[:0:len(fields)], all[len(fields):]
	}
	err := r.buffer.latest(entities, fields, func(entity int, raw *C.shim_value) {
		v, reason := judge(raw)
		if reason != "" {
			if r.fields.wants(v.Field) {
				dropped[reason]++
			}
			return
		}
		out[entity] = append(out[entity], v)
	})
	return out, err
}

// entities lists cards, each followed by its instances. A card of which not
// even the UUID is known has no labels to stand under and is counted as an error.
func (r *reader) entities(cards, instances [][]collect.Value, dropped map[string]int) []collect.Entity {
	out := make([]collect.Entity, 0, len(cards)+len(instances))
	for i, gpu := range r.layout.gpus {
		id := r.cards[gpu]
		for _, v := range cards[i] {
			id.take(v)
		}
		if id.uuid == "" {
			dropped[dropError]++
			continue
		}
		card := id.entity(gpu)
		card.Values = r.amendXID(gpu, r.wantedOnly(cards[i]))
		out = append(out, card)
		for k, p := range r.layout.instances {
			if p.gpu != gpu {
				continue
			}
			for _, v := range instances[k] {
				if v.Field == fieldUUID {
					r.noticeRemade(p.key, v.Text)
				}
			}
			driver, known := r.places[p.key]
			e := instanceEntity(card, p, driver, known, instances[k])
			e.Values = r.wantedOnly(instances[k])
			out = append(out, e)
		}
	}
	return out
}

// wantedOnly leaves out what was read for identity alone.
func (r *reader) wantedOnly(values []collect.Value) []collect.Value {
	return slices.DeleteFunc(values, func(v collect.Value) bool { return !r.fields.wants(v.Field) })
}

// amendXID puts a card's last XID where its field stands.
func (r *reader) amendXID(gpu uint32, values []collect.Value) []collect.Value {
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
	v, ok := r.xids.amend(gpu, old, found)
	switch {
	case found:
		values[at] = v
	case ok:
		values = slices.Insert(values, at, v)
	}
	return values
}

package dcgm

// #include "shim.h"
import "C"

import (
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// absentEvery is how often fields are sampled that DCGM supports of no entity, as NVLink's of
// GPUs without it: a host engine logs an error for each sample and for each reading of one,
// which have filled disks (NVIDIA/gpu-monitoring-tools#146).
const absentEvery = time.Minute

// leastKeep is how long the host engine keeps samples at least of which only the last is read.
const leastKeep = 10 * time.Second

// watchAll makes the host engine sample the fields of each entity, profiling fields of the GPUs that
// have them and of their instances, and takes the first samples. A refused field does not affect the
// others, unless the host engine refuses everything. What was set up before is removed.
func (r *reader) watchAll() error {
	r.session.unwatch()
	for every, fields := range r.plan() {
		for _, part := range r.rectangles(fields) {
			if _, err := r.session.watch(part, every, max(3*every, leastKeep)); err != nil {
				return err
			}
		}
	}
	if len(r.session.watches) == 0 && r.session.refused != nil {
		return r.session.refused
	}
	r.watched = map[entityKey][]uint16{}
	for _, w := range r.session.watches {
		for _, e := range w.entities {
			r.watched[e] = append(r.watched[e], w.fields...)
		}
	}
	r.planReads()
	if err := r.watchHealth(); err != nil {
		return err
	}
	if err := r.watchEvents(); err != nil { // last: it keeps samples longer than a plain watch of the same field
		return err
	}
	return r.tolerated("first samples", refusal("taking the first samples", godcgm.UpdateAllFields())) // they arrive later then
}

// plan is which fields of which entities are sampled at which interval. DCGM refuses a whole list for
// one GPU that lacks a profiling field of it.
func (r *reader) plan() map[time.Duration]map[entityKey][]uint16 {
	plan, profiled := map[time.Duration]map[entityKey][]uint16{}, map[entityKey][]uint16{}
	if slices.ContainsFunc(r.fields.of[kindGPU], isProfiled) {
		for _, gpu := range r.keys(kindGPU) {
			profiled[gpu] = profiledFields(gpu.id)
		}
	}
	for _, e := range r.layout {
		for _, f := range r.fields.of[e.kind] {
			if isProfiled(f) && !slices.Contains(profiled[e.root()], f) {
				continue
			}
			every := max(r.every, r.slower[f])
			if slices.Contains(r.absent, f) {
				every = max(every, r.options.absentEvery)
			}
			if plan[every] == nil {
				plan[every] = map[entityKey][]uint16{}
			}
			plan[every][e.entityKey] = append(plan[every][e.entityKey], f)
		}
	}
	return plan
}

// profiledFields gives the profiling fields a GPU has, as DCGM reports them.
func profiledFields(gpu uint32) (fields []uint16) {
	groups, _ := godcgm.GetSupportedMetricGroups(uint(gpu)) // none of a GPU that cannot be profiled
	for _, g := range groups {
		for _, f := range g.FieldIds {
			fields = append(fields, uint16(f))
		}
	}
	return fields
}

// rectangles puts the entities of the layout with the same fields together, for few calls. Entities
// without fields are left out; fields are sorted.
func (r *reader) rectangles(of map[entityKey][]uint16) (out []rectangle) {
	for _, e := range r.layout {
		fields := slices.Sorted(slices.Values(of[e.entityKey]))
		if len(fields) == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(r rectangle) bool { return slices.Equal(r.fields, fields) })
		if i < 0 {
			i, out = len(out), append(out, rectangle{fields: fields})
		}
		out[i].entities = append(out[i].entities, e.entityKey)
	}
	return out
}

// lookForAbsent reads what is watched and finds the fields that DCGM supports of no entity. Those of
// our own families are excepted.
func (r *reader) lookForAbsent() (absent []uint16, err error) {
	r.looked = r.options.now()
	supported := map[uint16]bool{}
	for _, part := range r.rectangles(r.watched) {
		err := r.buffer.latest(part, 0, func(_ int, v *C.shim_value) {
			field := uint16(v.field)
			supported[field] = supported[field] || int(v.status) != godcgm.DCGM_ST_NOT_SUPPORTED
		}, func(int, error) {
			for _, f := range part.fields {
				supported[f] = true // not known
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for field, has := range supported {
		if !has && !slices.Contains(collect.Fields(), field) {
			absent = append(absent, field)
		}
	}
	slices.Sort(absent)
	return absent, nil
}

// planReads sets what is read with each reading: DCGM logs an error for each value that is read and
// not watched, or not supported. The others that are wanted of GPUs and instances are counted.
func (r *reader) planReads() {
	read := map[entityKey][]uint16{}
	r.missing = 0
	for _, e := range r.layout {
		key, wanted := e.entityKey, len(r.fields.of[e.kind])
		read[key] = slices.DeleteFunc(slices.Clone(r.watched[key]), func(f uint16) bool { return slices.Contains(r.absent, f) })
		switch e.kind {
		case kindGPU:
			r.missing += len(r.fields.unknown) + wanted - len(read[key])
		case kindInstance:
			r.missing += wanted - len(read[key])
		}
	}
	r.reads = r.rectangles(read)
}

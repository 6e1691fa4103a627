package dcgm

// #include "shim.h"
import "C"

import (
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// absentEvery is how often fields are sampled that DCGM supports on no entity, such as
// NVLink's on GPUs without NVLink. A host engine logs an error for each sample and each
// reading of such a field, which has filled disks (NVIDIA/gpu-monitoring-tools#146).
const absentEvery = time.Minute

// leastKeep is the shortest time that the host engine keeps samples. Only the last one is
// read.
const leastKeep = 10 * time.Second

// sampling is what the host engine samples, and which part of it is read.
type sampling struct {
	fields fieldSet
	every  time.Duration
	slower map[uint16]time.Duration // fields with an interval of their own

	absent []uint16  // fields that DCGM supports on no entity
	looked time.Time // when absent was determined
	// reads are what is watched, in as few requests as possible: in each, DCGM's library clears four megabytes. absent
	// is not read: DCGM logs an error for each value that it has not.
	reads []rectangle
}

// watchAll replaces all watches: the host engine samples the fields of each entity, profiling fields
// only of the GPUs that have them and of their instances. It takes the first samples. A refused
// field does not affect the others, unless the host engine refuses everything.
func (r *reader) watchAll() error {
	r.session.unwatch()
	watched := map[entityKey][]uint16{}
	for every, fields := range r.plan(r.layout) {
		for _, part := range r.layout.rectangles(fields) {
			watches, err := r.session.watch(part, every, max(3*every, leastKeep))
			if err != nil {
				return err
			}
			for _, w := range watches {
				there := slices.DeleteFunc(slices.Clone(w.fields), func(f uint16) bool { return slices.Contains(r.absent, f) })
				for _, e := range w.entities {
					watched[e] = append(watched[e], there...)
				}
			}
		}
	}
	r.reads = r.layout.rectangles(watched)
	if len(r.session.watches) == 0 && r.session.refused != nil {
		return r.session.refused
	}
	if err := r.watchHealth(); err != nil {
		return err
	}
	if err := r.events.watch(r.session, r.layout, &r.sampling); err != nil { // last: it keeps samples longer than a plain watch of the same field
		return err
	}
	return r.complaints.tolerated("first samples", refusal("taking the first samples", godcgm.UpdateAllFields())) // they arrive later then
}

// plan returns which fields of which entities are sampled, by interval. Profiling fields are planned
// only for GPUs that have them, and for their instances and links: DCGM refuses a whole list for one GPU
// that lacks one of its profiling fields.
func (s *sampling) plan(l layout) map[time.Duration]map[entityKey][]uint16 {
	plan, profiled := map[time.Duration]map[entityKey][]uint16{}, map[entityKey][]uint16{}
	for _, gpu := range l.keys(kindGPU) {
		profiled[gpu] = profiledFields(gpu.id)
	}
	for _, e := range l {
		for _, f := range s.fields.of[e.kind] {
			if collect.Profiled(f) && !slices.Contains(profiled[e.root()], f) {
				continue
			}
			every := max(s.every, s.slower[f])
			if slices.Contains(s.absent, f) {
				every = max(every, absentEvery)
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

// lookForAbsent reads what is watched and returns the fields that DCGM supports on no entity. Fields
// of our own families are never among them.
func (r *reader) lookForAbsent() (absent []uint16, err error) {
	r.looked = r.options.now()
	supported := map[uint16]bool{}
	for _, part := range r.session.watches {
		err := r.buffer.latest(part.rectangle, 0, func(_ int, v *C.shim_value) {
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

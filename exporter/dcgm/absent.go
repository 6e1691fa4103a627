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

// setAbsent samples the fields that are absent more rarely, and the others not.
func (r *reader) setAbsent() error {
	supported, err := r.look()
	if err != nil {
		return err
	}
	var absent []uint16
	for field, has := range supported {
		if !has && !alwaysRead(field) {
			absent = append(absent, field)
		}
	}
	if slices.Sort(absent); slices.Equal(absent, r.absent) {
		return nil
	}
	r.absent = absent
	r.options.Log.Debug("dcgm: fields that are not supported are sampled more rarely", "fields", absent, "every", r.options.absentEvery.String())
	r.unwatch()
	return r.watchAll()
}

// alwaysRead are the fields of our own families and of identities.
func alwaysRead(field uint16) bool {
	return slices.Contains(collect.Fields(), field) || slices.Contains(gpuIdentity, field) || slices.Contains(instanceIdentity, field)
}

// returned reports whether an absent field is supported now; it looks when that is due.
func (r *reader) returned() (bool, error) {
	if age := r.options.now().Sub(r.looked); len(r.absent) == 0 || age >= 0 && age < r.options.absentEvery {
		return false, nil
	}
	supported, err := r.look()
	return slices.ContainsFunc(r.absent, func(f uint16) bool { return supported[f] }), err
}

// look reports of each field that is watched whether DCGM supports it of any entity.
func (r *reader) look() (map[uint16]bool, error) {
	r.looked = r.options.now()
	supported := map[uint16]bool{}
	for _, part := range r.session.rectangles(r.layout.keys(), nil) {
		err := r.buffer.latest(part.entities, part.fields, func(_ int, v *C.shim_value) {
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
	return supported, nil
}

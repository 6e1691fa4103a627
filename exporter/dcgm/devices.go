package dcgm

// #include "shim.h"
import "C"

import (
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// device is a switch, link, CPU or core in the layout.
type device struct {
	key        entityKey
	kind       collect.DeviceKind
	id, parent uint32
}

func (d device) ofGPU() bool { return d.kind == collect.GPULink }

// readDevices lists the devices of the kinds that fields are wanted of. A kind
// that cannot be listed is empty and does not affect the others.
func (r *reader) readDevices() ([]device, error) {
	var out []device
	for _, kind := range []struct {
		name string
		kind uint32
		list func() ([]device, error)
	}{
		{"NvSwitches", kindSwitch, listOf(kindSwitch, collect.Switch)},
		{"NVLinks", kindLink, listLinks},
		{"CPUs", kindCPU, listOf(kindCPU, collect.CPU)},
		{"CPU cores", kindCore, listCores},
	} {
		if len(r.fields.device[kind.kind]) == 0 {
			continue
		}
		some, err := kind.list()
		if isAbsent(err) {
			err = nil
		}
		if err = r.tolerated(kind.name, err); err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// isAbsent reports whether an error means that the machine has no such device. Of CPUs DCGM
// says on machines other than Grace that a module is not loaded.
func isAbsent(err error) bool {
	switch codeOf(err) {
	case godcgm.DCGM_ST_NOT_SUPPORTED, godcgm.DCGM_ST_NO_DATA, C.SHIM_NO_SYMBOL, godcgm.DCGM_ST_MODULE_NOT_LOADED:
		return true
	}
	return false
}

// listOf lists the entities of a kind that have no parent.
func listOf(kind uint32, is collect.DeviceKind) func() ([]device, error) {
	return func() ([]device, error) {
		ids, err := readEntities(kind)
		out := make([]device, len(ids))
		for i, id := range ids {
			out[i] = device{key: entityKey{kind, id}, kind: is, id: id}
		}
		return out, err
	}
}

// listLinks gives the links that are up.
func listLinks() ([]device, error) {
	list := make([]C.shim_link, C.SHIM_MAX_LINKS)
	var n C.int
	code := C.shim_links(C.uintptr_t(hostHandle), &list[0], &n)
	out := make([]device, 0, n)
	for _, l := range list[:n] {
		d := device{key: entityKey{kindLink, uint32(l.entity)}, kind: collect.GPULink, id: uint32(l.index), parent: uint32(l.parent)}
		if l.on_switch != 0 {
			d.kind = collect.SwitchLink
		}
		out = append(out, d)
	}
	return out, callError("listing NVLinks", code)
}

func listCores() (out []device, err error) {
	all, err := godcgm.GetCPUHierarchy()
	if err != nil {
		return nil, refusal("listing CPU cores", err)
	}
	for _, cpu := range all.CPUs[:all.NumCPUs] {
		for id := range uint32(64 * len(cpu.OwnedCores)) {
			if cpu.OwnedCores[id/64]>>(id%64)&1 != 0 {
				out = append(out, device{key: entityKey{kindCore, id}, kind: collect.Core, id: id, parent: uint32(cpu.CPUID)})
			}
		}
	}
	return out, nil
}

// deviceRequests are each kind's fields.
func (r *reader) deviceRequests() (out []request) {
	for _, d := range r.layout.devices {
		part := godcgm.Field_Entity_Group(d.key.kind).String()
		i := slices.IndexFunc(out, func(w request) bool { return w.part == part })
		if i < 0 {
			i, out = len(out), append(out, request{nil, r.fields.device[d.key.kind], r.every, part})
		}
		out[i].entities = append(out[i].entities, d.key)
	}
	return out
}

// sampledDevices are the devices that have values.
func (r *reader) sampledDevices(values map[entityKey][]collect.Value) []collect.Device {
	var out []collect.Device
	for _, d := range r.layout.devices {
		if v := values[d.key]; len(v) > 0 {
			out = append(out, collect.Device{Kind: d.kind, ID: int(d.id), Parent: int(d.parent), Values: v})
		}
	}
	return out
}

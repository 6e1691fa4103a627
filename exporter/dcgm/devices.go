package dcgm

// #include "shim.h"
import "C"

import (
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
		{"NvSwitches", kindSwitch, listSwitches},
		{"NVLinks", kindLink, listLinks},
		{"CPUs", kindCPU, listCPUs},
		{"CPU cores", kindCore, listCores},
	} {
		if len(r.fields.device[kind.kind]) == 0 {
			continue
		}
		some, err := kind.list()
		if severs(err) {
			return nil, err
		}
		if isAbsent(err) {
			err = nil
		}
		r.complain(kind.name, err)
		out = append(out, some...)
	}
	return out, nil
}

// isAbsent reports whether an error means that the machine has no such device.
func isAbsent(err error) bool {
	switch codeOf(err) {
	case statusNotSupported, codeNoData, C.SHIM_NO_SYMBOL, codeModuleNotLoaded:
		return true
	}
	return false
}

// codeModuleNotLoaded is DCGM's answer about CPUs on machines other than Grace.
const codeModuleNotLoaded = -33

func listSwitches() ([]device, error) {
	ids, err := readEntities(kindSwitch)
	out := make([]device, len(ids))
	for i, id := range ids {
		out[i] = device{key: entityKey{kindSwitch, id}, kind: collect.Switch, id: id}
	}
	return out, err
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

func listCPUs() ([]device, error) {
	ids, err := readEntities(kindCPU)
	out := make([]device, len(ids))
	for i, id := range ids {
		out[i] = device{key: entityKey{kindCPU, id}, kind: collect.CPU, id: id}
	}
	return out, err
}

func listCores() ([]device, error) {
	var cpuOf [C.SHIM_MAX_ENTITIES]C.int32_t
	code := C.shim_cores(C.uintptr_t(hostHandle), &cpuOf[0])
	var out []device
	for core, cpu := range cpuOf {
		if cpu >= 0 {
			id := uint32(core)
			out = append(out, device{key: entityKey{kindCore, id}, kind: collect.Core, id: id, parent: uint32(cpu)})
		}
	}
	return out, callError("listing CPU cores", code)
}

// watchDevices watches each kind's fields.
func (r *reader) watchDevices() error {
	for kind, keys := range r.devicesByKind() {
		err := r.session.watch(keys, r.fields.device[kind], r.every, r.keep())
		if severs(err) {
			return err
		}
		if err != nil {
			r.options.Log.Warn("dcgm: devices not watched", "entities", len(keys), "error", err)
		}
	}
	return nil
}

func (r *reader) devicesByKind() map[uint32][]entityKey {
	out := map[uint32][]entityKey{}
	for _, d := range r.layout.devices {
		out[d.key.kind] = append(out[d.key.kind], d.key)
	}
	return out
}

// sampleDevices reads each kind's values. Blanks are not counted as dropped:
// most fields of links and CPUs are blank on most machines.
func (r *reader) sampleDevices(dropped map[string]int) ([]collect.Device, error) {
	if len(r.layout.devices) == 0 {
		return nil, nil
	}
	values := map[entityKey][]collect.Value{}
	for kind, keys := range r.devicesByKind() {
		rows, err := r.values(keys, r.fields.device[kind], dropped)
		if severs(err) {
			return nil, err
		}
		r.complain("device values", err)
		for i, row := range rows {
			values[keys[i]] = row
		}
	}
	var out []collect.Device
	for _, d := range r.layout.devices {
		if v := values[d.key]; len(v) > 0 {
			out = append(out, collect.Device{Kind: d.kind, ID: int(d.id), Parent: int(d.parent), Values: v})
		}
	}
	return out, nil
}

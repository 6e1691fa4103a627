package nvml

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// pass is one read in progress.
type pass struct {
	*Source
	reading *collect.Reading
	seen    map[place]bool
}

// add adds a GPU and its instances. A lost GPU stays, with its identity and no
// values.
func (p *pass) add(d device) {
	dev, known := p.known[d.uuid]
	if d.ret == nvml.SUCCESS && (!known || dev.Index != d.index) {
		dev, known = p.identify(d), true
		p.known[d.uuid] = dev
	}
	if !known {
		p.reading.Dropped[collect.DropError]++
		p.options.Log.Debug("nvml: GPU not identified", "index", d.index, "error", d.ret)
		return
	}
	log, listening := p.logOf(dev.UUID), false
	dev.DriverVersion = p.driver // another one may have been loaded
	dev.Lost = d.ret == nvml.ERROR_GPU_IS_LOST
	if d.ret != nvml.SUCCESS {
		p.reading.Dropped[collect.DropError] += len(p.wanted)
		dev.Values = p.xid(log, true, nil)
	} else {
		p.owners[d.handle] = dev.UUID
		dev.MIG = p.migMode(d.handle)
		if dev.MIG && p.lib.has("nvmlDeviceGetMaxMigDeviceCount") {
			dev.GPUMaxCompute, _ = d.handle.GetMaxMigDeviceCount() // 0 outside MIG mode, whatever the GPU can
		}
		dev.Values = p.values(d.handle, place{dev.UUID, -1}, d.handle)
		listening = p.events.subscribe(dev.UUID, d.handle)
		dev.Values = p.xid(log, listening, dev.Values)
	}
	if dev.Lost {
		log.Away(time.Time{})
	}
	answers := slices.ContainsFunc(dev.Values, func(v collect.Value) bool { return v.Field != collect.FieldXID })
	log.Observe(&dev, answers, p.reading.Taken)
	dev.Events = log.Snapshot(p.reading.Taken)
	dev.Events.Listening = listening
	at := len(p.reading.Entities)
	p.reading.Entities = append(p.reading.Entities, dev)
	if d.ret == nvml.SUCCESS && dev.MIG {
		p.instances(d.handle, at)
	}
}

// identify reads the identity of a GPU.
func (p *pass) identify(d device) collect.Entity {
	dev := collect.Entity{Kind: collect.GPU, GPU: d.index, Index: d.index, UUID: d.uuid, Minor: d.index}
	dev.Model, _ = d.handle.GetName()
	if minor, ret := d.handle.GetMinorNumber(); ret == nvml.SUCCESS {
		dev.Minor = minor
	}
	pci, _ := d.handle.GetPciInfo() // blank where it fails
	dev.PCIBusID = text(pci.BusId[:])
	return dev
}

func text(c []int8) string {
	var b []byte
	for i := 0; i < len(c) && c[i] != 0; i++ {
		b = append(b, byte(c[i]))
	}
	return string(b)
}

func (p *pass) migMode(d nvml.Device) bool {
	if !p.lib.has("nvmlDeviceGetMigMode") {
		return false
	}
	current, _, ret := d.GetMigMode()
	return ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE
}

// values reads the wanted fields of a GPU or of an instance. d is its handle,
// dev that of its GPU.
func (p *pass) values(d nvml.Device, at place, dev nvml.Device) []collect.Value {
	var values []collect.Value
	now := time.Now()
	add := func(field uint16, v float64, ret nvml.Return) {
		switch {
		case ret != nvml.SUCCESS:
			p.reading.Dropped[dropOf(ret)]++
		case math.IsNaN(v):
			p.reading.Dropped[collect.DropBlank]++
		case !collect.Plausible(field, &v):
			p.reading.Dropped[collect.DropImpossible]++
		default:
			values = append(values, collect.Value{Field: field, Number: v, Time: now})
		}
	}
	for _, c := range calls {
		if at.instance >= 0 && !c.instances || !slices.ContainsFunc(c.fields, p.wants) {
			continue
		}
		var read []float64
		ret := nvml.ERROR_FUNCTION_NOT_FOUND
		if p.lib.has(c.symbol) {
			read, ret = c.read(d)
		}
		for i, field := range c.fields {
			if v := nothing; p.wants(field) {
				if ret == nvml.SUCCESS {
					v = read[i]
				}
				add(field, v, ret)
			}
		}
	}
	if slices.ContainsFunc(p.wanted, collect.Profiled) && p.gpm.has(at.uuid, dev) {
		p.seen[at] = true
		p.gpm.read(at, dev, p.wants, add)
	}
	slices.SortFunc(values, func(a, b collect.Value) int { return cmp.Compare(a.Field, b.Field) })
	return values
}

// xid adds a GPU's last XID; as in DCGM there is none before the first.
func (p *pass) xid(log *collect.EventLog, listening bool, values []collect.Value) []collect.Value {
	if !p.wants(collect.FieldXID) {
		return values
	}
	out := log.AmendXID(values)
	if len(out) == len(values) && !listening {
		p.reading.Dropped[collect.DropNotSupported]++
	}
	return out
}

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// reader is the part of a Source that talks to NVML. It is for one goroutine.
type reader struct {
	path   string
	log    *slog.Logger
	window time.Duration
	wanted []uint16 // sorted

	lib    *library // nil: not open
	driver string
	gpm    *gpm
	events *events
	places map[string]placement   // by instance UUID
	owners map[nvml.Device]string // GPU UUIDs by handle

	// What outlives the library:
	gpus   map[int]collect.Entity // identities by index, also of lost GPUs
	logs   map[string]*gpuLog     // by GPU UUID
	asleep map[string]bool        // UUIDs of released GPUs
}

// placement is an instance's place on its GPU, in memory slices.
type placement struct{ start, size int }

func newReader(o Options) *reader {
	return &reader{path: o.LibraryPath, log: o.Log, window: o.EventWindow, gpus: map[int]collect.Entity{}, logs: map[string]*gpuLog{}}
}

func (r *reader) wants(field uint16) bool {
	_, found := slices.BinarySearch(r.wanted, field)
	return found
}

func (r *reader) connect() error {
	if r.lib != nil {
		return nil
	}
	lib, err := open(r.path, r.log)
	if err != nil {
		return err
	}
	r.lib, r.gpm, r.events = lib, newGPM(lib), newEvents(lib)
	r.places, r.owners, r.driver = map[string]placement{}, map[nvml.Device]string{}, ""
	if lib.has("nvmlSystemGetDriverVersion") {
		if version, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			r.driver = version
		}
	}
	r.log.Info("NVML opened", "driver", r.driver)
	return nil
}

// close closes every handle.
func (r *reader) close() {
	if r.lib == nil {
		return
	}
	r.gpm.forget(nil)
	r.events.close()
	r.lib.close()
	r.lib = nil
}

// read gives a Reading. A failure of the library as a whole closes it: the next
// read opens it again.
func (r *reader) read() (*collect.Reading, error) {
	reading, err := r.tryRead()
	if err != nil {
		if r.lib != nil {
			// The driver may be unloaded, and the GPUs reset.
			for _, log := range r.logs {
				log.Away(time.Now())
			}
		}
		r.close()
	}
	return reading, err
}

func (r *reader) tryRead() (*collect.Reading, error) {
	if err := r.connect(); err != nil {
		return nil, err
	}
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("counting GPUs: %w", ret)
	}
	pass := &pass{reader: r, reading: &collect.Reading{Taken: time.Now(), Dropped: map[string]int{}}, seen: map[place]bool{}}
	r.events.take(func(d nvml.Device, code int64) {
		if uuid := r.owner(d); uuid != "" {
			r.logOf(uuid).xid(code, time.Now())
		}
	})
	for index := range count {
		if known, ok := r.gpus[index]; !ok || !r.asleep[known.UUID] {
			pass.dev(index)
		}
	}
	if count > 0 && len(pass.reading.Entities) == 0 && len(r.asleep) == 0 {
		return nil, errors.New("none of the GPUs that NVML counts can be identified")
	}
	r.gpm.forget(pass.seen)
	return pass.reading, nil
}

// owner gives the UUID of an event's GPU, also of one that is lost.
func (r *reader) owner(d nvml.Device) string {
	if uuid, ret := d.GetUUID(); ret == nvml.SUCCESS {
		return uuid
	}
	return r.owners[d]
}

// pass is one read in progress.
type pass struct {
	*reader
	reading *collect.Reading
	seen    map[place]bool
}

// GPU adds a GPU and its instances. A lost GPU stays, with its identity and no
// values.
func (p *pass) dev(index int) {
	device, ret := p.lib.DeviceGetHandleByIndex(index)
	if ret == nvml.SUCCESS {
		ret = p.identify(index, device)
	}
	dev, known := p.gpus[index]
	if !known {
		p.reading.Dropped[collect.DropError]++
		p.log.Debug("nvml: GPU not identified", "index", index, "error", ret)
		return
	}
	if p.asleep[dev.UUID] {
		return // released before it was known
	}
	log, listening := p.logOf(dev.UUID), false
	dev.Lost = ret == nvml.ERROR_GPU_IS_LOST
	if ret != nvml.SUCCESS {
		p.reading.Dropped[collect.DropError] += len(p.wanted)
		dev.Values = p.xid(log, true, nil)
	} else {
		dev.MIG = p.migMode(device)
		if dev.MIG && p.lib.has("nvmlDeviceGetMaxMigDeviceCount") {
			dev.GPUMaxCompute, _ = device.GetMaxMigDeviceCount() // 0 outside MIG mode, whatever the GPU can
		}
		dev.Values = p.values(device, place{dev.UUID, -1}, device)
		listening = p.events.subscribe(dev.UUID, device)
		dev.Values = p.xid(log, listening, dev.Values)
	}
	log.seen(&dev, p.reading.Taken)
	dev.Events = log.Snapshot(p.reading.Taken)
	dev.Events.Listening = listening
	at := len(p.reading.Entities)
	p.reading.Entities = append(p.reading.Entities, dev)
	if ret == nvml.SUCCESS && dev.MIG {
		p.instances(device, at)
	}
}

// identify reads the identity of the GPU at an index; another GPU there than
// before replaces it.
func (p *pass) identify(index int, d nvml.Device) nvml.Return {
	uuid, ret := d.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	p.owners[d] = uuid
	if old, known := p.gpus[index]; known && old.UUID == uuid {
		return nvml.SUCCESS
	}
	dev := collect.Entity{Kind: collect.GPU, GPU: index, Index: index, UUID: uuid, Minor: index, DriverVersion: p.driver}
	dev.Model, _ = d.GetName()
	if p.lib.has("nvmlDeviceGetMinorNumber") {
		if minor, ret := d.GetMinorNumber(); ret == nvml.SUCCESS {
			dev.Minor = minor
		}
	}
	if p.lib.has("nvmlDeviceGetPciInfo_v3") {
		if pci, ret := d.GetPciInfo(); ret == nvml.SUCCESS {
			dev.PCIBusID = text(pci.BusId[:])
		}
	}
	p.gpus[index] = dev
	return nvml.SUCCESS
}

func text(c []int8) string {
	var b strings.Builder
	for _, x := range c {
		if x == 0 {
			break
		}
		b.WriteByte(byte(x))
	}
	return b.String()
}

func (p *pass) migMode(d nvml.Device) bool {
	if !p.lib.has("nvmlDeviceGetMigMode") {
		return false
	}
	current, _, ret := d.GetMigMode()
	return ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE
}

// values reads the wanted fields of a GPU or of an instance, whose handle is d.
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
	for i := range calls {
		if c := &calls[i]; at.instance < 0 || c.instances {
			p.call(c, d, add)
		}
	}
	if p.wantsProfiling() && p.gpm.has(at.uuid, dev) {
		p.seen[at] = true
		p.gpm.read(at, dev, p.wants, add)
	}
	slices.SortFunc(values, func(a, b collect.Value) int { return cmp.Compare(a.Field, b.Field) })
	return values
}

func (p *pass) wantsProfiling() bool {
	i, _ := slices.BinarySearch(p.wanted, uint16(firstProfiled))
	return i < len(p.wanted) && p.wanted[i] <= lastProfiled
}

// call makes one call where any of its fields is wanted.
func (p *pass) call(c *call, d nvml.Device, add func(uint16, float64, nvml.Return)) {
	if !slices.ContainsFunc(c.fields, p.wants) {
		return
	}
	var values []float64
	ret := nvml.ERROR_FUNCTION_NOT_FOUND
	if p.lib.has(c.symbol) {
		values, ret = c.read(d)
	}
	for i, field := range c.fields {
		switch {
		case !p.wants(field):
		case ret != nvml.SUCCESS:
			add(field, 0, ret)
		default:
			add(field, values[i], ret)
		}
	}
}

// xid adds a GPU's last XID; as in DCGM there is none before the first.
func (p *pass) xid(log *gpuLog, listening bool, values []collect.Value) []collect.Value {
	if !p.wants(fieldXID) {
		return values
	}
	if log.last.Code == 0 {
		if !listening {
			p.reading.Dropped[collect.DropNotSupported]++
		}
		return values
	}
	v := collect.Value{Field: fieldXID, Number: float64(log.last.Code), Time: log.last.Time}
	at, _ := slices.BinarySearchFunc(values, fieldXID, func(v collect.Value, f int) int { return int(v.Field) - f })
	return slices.Insert(values, at, v)
}

// logOf returns the log of a GPU's events.
func (r *reader) logOf(uuid string) *gpuLog {
	if r.logs[uuid] == nil {
		r.logs[uuid] = &gpuLog{EventLog: collect.NewEventLog(r.window)}
	}
	return r.logs[uuid]
}

// quiesce releases the named GPUs and reacquires the others. NVML closes its
// handles only all at once; the next read opens those that it needs.
func (r *reader) quiesce(gpus []string) {
	r.asleep = map[string]bool{}
	for _, uuid := range gpus {
		r.asleep[uuid] = true
		r.logOf(uuid).Away(time.Time{})
	}
	r.close()
}

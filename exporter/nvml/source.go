package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Options of a Source and of Processes.
type Options struct {
	// LibraryPath is the file of libnvidia-ml.so.1; empty searches as the dynamic
	// loader does.
	LibraryPath string
	// EventWindow is for how long single events are kept; 0 means 5 minutes.
	EventWindow time.Duration
	// Log gets changes of state; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.LibraryPath = cmp.Or(o.LibraryPath, libraryName)
	o.EventWindow = cmp.Or(o.EventWindow, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Source reads NVML. It is for one goroutine.
type Source struct {
	options Options
	wanted  []uint16 // sorted

	lib    *library // nil: not open
	driver string
	gpm    *gpm
	events *events
	places map[string]placement   // by instance UUID
	owners map[nvml.Device]string // GPU UUIDs by handle

	// What outlives the library:
	gpus   map[int]collect.Entity       // identities by index, also of lost GPUs
	logs   map[string]*collect.EventLog // by GPU UUID
	asleep map[string]bool              // UUIDs of released GPUs
}

// placement is an instance's place on its GPU, in memory slices.
type placement struct{ start, size int }

var (
	_ collect.Source   = (*Source)(nil)
	_ collect.Quiescer = (*Source)(nil)
)

// New looks for the library and gives a Source; it fails with ErrNoLibrary
// where there is none. Read opens it, again after each failure.
func New(o Options) (collect.Source, error) {
	o = o.withDefaults()
	if err := probe(o.LibraryPath); err != nil {
		return nil, err
	}
	return &Source{options: o, gpus: map[int]collect.Entity{}, logs: map[string]*collect.EventLog{}}, nil
}

// Watch sets the DCGM fields wanted. Those that NVML does not have are logged
// and left out. How often they are taken is how often Read is called.
func (r *Source) Watch(fields []uint16, every time.Duration) error {
	if every < minInterval {
		return fmt.Errorf("reading NVML every %s: the least is %s", every, minInterval)
	}
	can := Fields()
	var unknown []uint16
	r.wanted = nil
	for _, f := range slices.Compact(slices.Sorted(slices.Values(fields))) {
		if slices.Contains(can, f) {
			r.wanted = append(r.wanted, f)
		} else {
			unknown = append(unknown, f)
		}
	}
	if len(unknown) > 0 {
		r.options.Log.Warn("nvml: fields not supported", "fields", unknown)
	}
	return nil
}

// Close closes NVML.
func (r *Source) Close() error { r.close(); return nil }

func (r *Source) wants(field uint16) bool {
	_, found := slices.BinarySearch(r.wanted, field)
	return found
}

func (r *Source) connect() error {
	if r.lib != nil {
		return nil
	}
	lib, err := open(r.options.LibraryPath, r.options.Log)
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
	r.options.Log.Info("NVML opened", "driver", r.driver)
	return nil
}

// close closes every handle.
func (r *Source) close() {
	if r.lib == nil {
		return
	}
	r.gpm.forget(nil)
	r.events.close()
	r.lib.close()
	r.lib = nil
}

// Read takes the values of each wanted field of each GPU and instance. A failure of the
// library as a whole closes it: the next Read opens it again.
func (r *Source) Read() (*collect.Reading, error) {
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

func (r *Source) tryRead() (*collect.Reading, error) {
	if allAsleep(r.gpus, func(e collect.Entity) string { return e.UUID }, r.asleep) {
		return &collect.Reading{Taken: time.Now(), Dropped: map[string]int{}}, nil
	}
	if err := r.connect(); err != nil {
		return nil, err
	}
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("counting GPUs: %w", ret)
	}
	pass := &pass{Source: r, reading: &collect.Reading{Taken: time.Now(), Dropped: map[string]int{}}, seen: map[place]bool{}}
	r.events.take(func(d nvml.Device, code int64) {
		if uuid := r.owner(d); uuid != "" {
			r.logOf(uuid).AddXID(collect.Event{Time: time.Now(), Code: code})
		}
	})
	// All are identified before any is read: what is lost at the place of another one that has
	// moved is not that one.
	devices := make([]found, count)
	for index := range devices {
		if known, ok := r.gpus[index]; !ok || !r.asleep[known.UUID] {
			devices[index] = pass.find(index)
		}
	}
	acquired := false
	for index, d := range devices {
		pass.dev(index, d.device, d.ret)
		acquired = acquired || d.device != nil && r.asleep[r.gpus[index].UUID]
	}
	if count > 0 && len(pass.reading.Entities) == 0 && len(r.asleep) == 0 {
		return nil, errors.New("none of the GPUs that NVML counts can be identified")
	}
	r.gpm.forget(pass.seen)
	if acquired {
		r.close() // of a GPU that was released before it was known
	}
	return pass.reading, nil
}

// owner gives the UUID of an event's GPU, also of one that is lost.
func (r *Source) owner(d nvml.Device) string {
	if uuid, ret := d.GetUUID(); ret == nvml.SUCCESS {
		return uuid
	}
	return r.owners[d]
}

// pass is one read in progress.
type pass struct {
	*Source
	reading *collect.Reading
	seen    map[place]bool
}

// found is the handle of the GPU at an index, or why there is none.
type found struct {
	device nvml.Device
	ret    nvml.Return
}

func (p *pass) find(index int) found {
	device, ret := p.lib.DeviceGetHandleByIndex(index)
	if ret == nvml.SUCCESS {
		ret = p.identify(index, device)
	}
	return found{device, ret}
}

// dev adds a GPU and its instances. A lost GPU stays, with its identity and no
// values.
func (p *pass) dev(index int, device nvml.Device, ret nvml.Return) {
	dev, known := p.gpus[index]
	if !known {
		p.reading.Dropped[collect.DropError]++
		p.options.Log.Debug("nvml: GPU not identified", "index", index, "error", ret)
		return
	}
	if p.asleep[dev.UUID] {
		return // released before it was known
	}
	log, listening := p.logOf(dev.UUID), false
	dev.DriverVersion = p.driver // another one may have been loaded
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
	observe(log, &dev, p.reading.Taken)
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
	dev := collect.Entity{Kind: collect.GPU, GPU: index, Index: index, UUID: uuid, Minor: index}
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
	maps.DeleteFunc(p.gpus, func(_ int, old collect.Entity) bool { return old.UUID == uuid }) // it was elsewhere
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
func (p *pass) xid(log *collect.EventLog, listening bool, values []collect.Value) []collect.Value {
	if !p.wants(fieldXID) {
		return values
	}
	out := log.AmendXID(values)
	if len(out) == len(values) && !listening {
		p.reading.Dropped[collect.DropNotSupported]++
	}
	return out
}

// observe records a read of the GPU: its loss and its return, and its throttle reasons.
func observe(log *collect.EventLog, dev *collect.Entity, now time.Time) {
	if dev.Lost {
		log.Away(time.Time{})
	}
	answers := slices.ContainsFunc(dev.Values, func(v collect.Value) bool { return v.Field != fieldXID })
	log.Observe(dev, answers, now)
	if v, ok := dev.Value(fieldClocks); ok {
		log.AddClocks(collect.Event{Time: v.Time, Code: int64(v.Number)})
	}
}

// logOf returns the log of a GPU's events.
func (r *Source) logOf(uuid string) *collect.EventLog {
	if r.logs[uuid] == nil {
		r.logs[uuid] = collect.NewEventLog(r.options.EventWindow)
	}
	return r.logs[uuid]
}

// allAsleep reports that every GPU seen is released: then NVML is not opened, since it keeps
// the device file of every GPU open, be its handle requested or not (driver 580).
func allAsleep[G any](seen map[int]G, uuid func(G) string, asleep map[string]bool) bool {
	for _, gpu := range seen {
		if !asleep[uuid(gpu)] {
			return false
		}
	}
	return len(seen) > 0
}

// Quiesce releases the GPUs with these UUIDs and reacquires the others. NVML closes its
// handles only all at once; the next Read opens those that it needs.
func (r *Source) Quiesce(gpus []string) error {
	r.asleep = map[string]bool{}
	for _, uuid := range gpus {
		r.asleep[uuid] = true
		r.logOf(uuid).Away(time.Time{})
	}
	r.close()
	return nil
}

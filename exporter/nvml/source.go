package nvml

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
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

// Source reads NVML. It is for one goroutine.
type Source struct {
	options Options
	wanted  []uint16 // sorted

	lib    *library // nil: not open
	driver string
	gpm    *gpm
	events *events
	owners map[nvml.Device]string // GPU UUIDs by handle

	// What outlives the library:
	gpus  gpus
	known map[string]collect.Entity    // identities by GPU UUID
	logs  map[string]*collect.EventLog // by GPU UUID
}

var (
	_ collect.Source   = (*Source)(nil)
	_ collect.Quiescer = (*Source)(nil)
)

// New looks for the library and gives a Source; it fails with ErrNoLibrary
// where there is none. Read opens it, again after each failure.
func New(o Options) (*Source, error) {
	o.LibraryPath = cmp.Or(o.LibraryPath, libraryName)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Source{options: o, gpus: gpus{uuids: map[int]string{}}, known: map[string]collect.Entity{}, logs: map[string]*collect.EventLog{}}, probe(o.LibraryPath)
}

// Watch sets the DCGM fields wanted. Those that NVML does not have are logged
// and left out. The others are sampled with each Read.
func (r *Source) Watch(fields []uint16, _ time.Duration, _ map[uint16]time.Duration) {
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
	gpmFound := lib.has("nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet")
	r.lib, r.gpm, r.events = lib, &gpm{lib, gpmFound, map[string]bool{}, map[place]nvml.GpmSample{}}, &events{lib: lib, registered: map[string]bool{}}
	r.owners, r.driver = map[nvml.Device]string{}, ""
	if version, ret := lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		r.driver = version
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
	pass := &pass{Source: r, reading: &collect.Reading{Taken: time.Now(), Dropped: map[string]int{}}, seen: map[place]bool{}}
	if r.gpus.allAsleep() {
		return pass.reading, nil
	}
	if err := r.connect(); err != nil {
		return nil, err
	}
	devices, err := r.gpus.list(r.lib)
	if err != nil {
		return nil, err
	}
	r.events.take(func(d nvml.Device, e collect.Event) {
		if uuid := r.owner(d); uuid != "" {
			r.logOf(uuid).AddXID(e)
		}
	})
	for _, d := range devices {
		pass.add(d)
	}
	if len(devices) > 0 && len(pass.reading.Entities) == 0 && len(r.gpus.asleep) == 0 {
		return nil, errors.New("none of the GPUs that NVML counts can be identified")
	}
	collect.NumberInstances(pass.reading.Entities)
	r.gpm.forget(pass.seen)
	if r.gpus.acquired {
		r.close()
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

// logOf returns the log of a GPU's events.
func (r *Source) logOf(uuid string) *collect.EventLog {
	if r.logs[uuid] == nil {
		r.logs[uuid] = collect.NewEventLog(r.options.EventWindow)
	}
	return r.logs[uuid]
}

// Quiesce releases the GPUs with these UUIDs and reacquires the others. NVML closes its
// handles only all at once; the next Read opens those that it needs.
func (r *Source) Quiesce(gpus []string) error {
	r.gpus.asleep = slices.Clone(gpus)
	for _, uuid := range gpus {
		r.logOf(uuid).Away(time.Time{})
	}
	r.close()
	return nil
}

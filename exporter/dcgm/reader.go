package dcgm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// identityEvery is the interval of identity fields: a new UUID under the same
// instance number is seen within it.
const identityEvery = 5 * time.Second

// reader is a collect.Source over DCGM. It is for one goroutine.
type reader struct {
	options Options
	buffer  *buffer

	fields fieldSet
	every  time.Duration
	slower map[uint16]time.Duration // fields with an interval of their own

	quiesced []string // UUIDs of released GPUs

	session *session // nil: not connected
	fresh   bool     // the watches fit fields and layout
	reached bool     // over this session there was a reading
	layout  layout
	reads   []rectangle                // what is watched
	refused int                        // values wanted of GPUs and instances and not read
	absent  []uint16                   // fields that DCGM supports of no entity
	looked  time.Time                  // for them
	devs    map[uint32]*collect.Entity // identities, by DCGM's id
	places  map[entityKey]nvml.MIGInstance
	uuids   map[entityKey]string // of instances, as last read
	events  events
	slow    slow

	hierarchy hierarchy
	answered  time.Time // when a GPU last had a value, or the connection was made

	complaints map[string]string // what was logged of each part
}

// New opens the library and gives a Source. Read connects, and reconnects
// whenever the host engine was lost. It fails with ErrNoLibrary or
// ErrLibraryTooOld, and with ErrInUse while another Source of the process is
// open.
func New(o Options) (collect.Source, error) {
	o = o.withDefaults()
	if !o.embedded() {
		if _, _, err := o.endpoint(); err != nil {
			return nil, err
		}
	}
	if err := loadLibrary(o.LibraryPath); err != nil {
		return nil, err
	}
	if !inUse.CompareAndSwap(false, true) {
		return nil, ErrInUse
	}
	return &reader{
		options: o, buffer: newBuffer(), every: time.Second,
		devs: map[uint32]*collect.Entity{}, complaints: map[string]string{},
		events: events{start: o.now(), window: o.EventWindow, logs: map[string]*collect.EventLog{}},
	}, nil
}

// Close disconnects from the host engine. It is called once.
func (r *reader) Close() error {
	defer inUse.Store(false)
	r.buffer.free()
	return r.hangUp()
}

func (r *reader) hangUp() error {
	if r.session == nil {
		return nil
	}
	r.session, r.reached, r.hierarchy = nil, false, hierarchy{}
	r.events.lostAt = r.options.now()
	if err := godcgm.Shutdown(); err != nil {
		return fmt.Errorf("closing the DCGM host engine: %w", err)
	}
	return nil
}

// Watch sets the fields and the intervals of the host engine's samples. Fields
// that the library does not know are left out and counted as not supported in
// each Reading. It takes effect with the next Read.
func (r *reader) Watch(fields []uint16, every time.Duration, slower map[uint16]time.Duration) {
	r.fields, r.every, r.slower, r.fresh = newFieldSet(fields), every, slower, false
	if len(r.fields.unknown) > 0 {
		r.options.Log.Warn("dcgm: fields not supported", "fields", r.fields.unknown)
	}
}

// keep is how long the host engine keeps samples of which only the last is read.
func (r *reader) keep() time.Duration { return max(3*r.every, 10*time.Second) }

// Read gives the last sample of each wanted field of each GPU and instance. After any
// failure the connection is closed, since it is unknown which failures it survives; the
// next Read connects again.
func (r *reader) Read() (*collect.Reading, error) {
	if r.mustStop() {
		return nil, ErrReleased
	}
	err := r.refresh()
	var reading *collect.Reading
	if err == nil {
		reading, err = r.sample()
	}
	if err == nil {
		if !r.reached {
			r.options.Log.Info("dcgm: host engine connected", "gpus", len(r.layout.gpus), "instances", len(r.layout.instances))
		}
		r.reached = true
		return reading, nil
	}
	if r.reached {
		r.options.Log.Warn("dcgm: host engine lost", "error", err)
	}
	if r.session != nil {
		err = errors.Join(err, r.hangUp())
	}
	return nil, err
}

// refresh connects where that is needed and fits the watches to what is there.
func (r *reader) refresh() error {
	if r.session == nil {
		s, err := connect(r.options)
		if err != nil {
			return err
		}
		r.session, r.fresh, r.answered = s, false, r.options.now()
	}
	now, err := r.readLayout()
	if err != nil {
		return err
	}
	returned := false
	if r.fresh {
		if returned, err = r.returned(); err != nil {
			return err
		}
	}
	if !r.fresh || returned || !now.equal(r.layout) {
		return r.adopt(now)
	}
	if r.strangers() {
		r.learnGPUs() // one may have come back
	}
	return nil
}

// mustStop reports whether the host engine may not run now: one in this process has NVML's
// handles of all GPUs.
func (r *reader) mustStop() bool { return r.options.embedded() && len(r.quiesced) > 0 }

// Quiesce releases GPUs, and reacquires others; see collect.Quiescer.
func (r *reader) Quiesce(uuids []string) error {
	r.quiesced = slices.Clone(uuids)
	if r.session == nil {
		return nil // no handle is open
	}
	if r.mustStop() {
		r.options.Log.Info("dcgm: embedded host engine stopped while GPUs are released", "gpus", uuids)
		return r.hangUp()
	}
	err := r.refresh()
	if err != nil {
		err = errors.Join(err, r.hangUp()) // which releases them too
	}
	return err
}

// adopt sets up the watches for a layout and identifies its GPUs.
func (r *reader) adopt(l layout) error {
	r.unwatch()
	for gpu, id := range r.devs {
		if !slices.Contains(l.gpus, gpu) && id.UUID != "" {
			r.events.log(id.UUID).Away(time.Time{})
		}
	}
	r.layout, r.fresh, r.uuids = l, true, map[entityKey]string{}
	r.learnGPUs()
	r.layout = r.withoutQuiesced(l) // one that was released before it was known
	r.learnPlaces()
	err := r.watchAll()
	if err == nil {
		err = r.setAbsent()
	}
	if err != nil {
		r.fresh = false
		return err
	}
	r.reads, r.refused = r.session.rectangles(r.layout.keys(), r.absent), r.countRefused()
	if r.reached {
		r.options.Log.Info("dcgm: layout read", "gpus", len(r.layout.gpus), "instances", len(r.layout.instances))
	}
	return nil
}

// unwatch ends the watches.
func (r *reader) unwatch() {
	if err := r.session.unwatch(); err != nil {
		// Entities that went away make this fail on some versions; the rest
		// ends with the connection.
		r.options.Log.Debug("dcgm: watches not removed", "error", err)
	}
}

// countRefused counts what is wanted of GPUs and instances and not read.
func (r *reader) countRefused() (n int) {
	count := func(entities []entityKey, wanted []uint16) {
		for _, e := range entities {
			n += len(wanted) - len(without(intersect(wanted, r.session.watched[e]), r.absent))
		}
	}
	count(r.layout.gpuKeys(), r.fields.wanted)
	count(r.layout.instanceKeys(), r.fields.instance)
	return n
}

// request is fields that are wanted of entities.
type request struct {
	entities []entityKey
	fields   []uint16
	every    time.Duration
	part     string // that goes on without it where all of it is refused; empty: nothing does
}

// watchAll watches plain fields on all entities, profiling fields where they are supported and what
// is beside the GPUs, then waits for first samples. A refused field does not affect
// the others, unless the host engine refuses everything.
func (r *reader) watchAll() error {
	gpus, instances := r.layout.gpuKeys(), r.layout.instanceKeys()
	plain, profiled := split(r.fields.wanted)
	instancePlain, _ := split(r.fields.instance)
	requests := []request{
		{gpus, gpuIdentity, r.options.identityEvery, ""}, {instances, instanceIdentity, r.options.identityEvery, ""},
		{gpus, plain, r.every, ""}, {instances, instancePlain, r.every, ""},
	}
	for _, w := range slices.Concat(requests, r.profiledRequests(profiled), r.deviceRequests()) {
		err := r.watchPaced(w.entities, w.fields, w.every)
		if severs(err) || err != nil && w.part == "" {
			return err
		}
		if err != nil {
			r.options.Log.Warn("dcgm: part not watched", "part", w.part, "entities", len(w.entities), "error", err)
		}
	}
	if err := r.watchHealth(); err != nil {
		return err
	}
	if err := r.watchEvents(); err != nil { // last: it keeps samples longer than a plain watch of the same field
		return err
	}
	return r.tolerated("first samples", refusal("taking the first samples", godcgm.UpdateAllFields())) // they arrive later then
}

// watchPaced watches fields, those with an interval of their own at that. It is an error when
// nothing of it is watched.
func (r *reader) watchPaced(entities []entityKey, fields []uint16, every time.Duration) error {
	byInterval := map[time.Duration][]uint16{}
	for _, f := range fields {
		d := max(every, r.slower[f])
		if slices.Contains(r.absent, f) {
			d = max(d, r.options.absentEvery)
		}
		byInterval[d] = append(byInterval[d], f)
	}
	var errs error
	some := false
	for d, part := range byInterval {
		err := r.session.watch(entities, part, d, max(3*d, r.keep()))
		if severs(err) {
			return err
		}
		some, errs = some || err == nil, errors.Join(errs, err)
	}
	if some {
		return nil
	}
	return errs
}

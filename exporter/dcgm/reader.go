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

// reader is a collect.Source over DCGM. It is for one goroutine.
type reader struct {
	options Options
	buffer  *buffer

	sampling

	quiesced []string // UUIDs of released GPUs

	session *session // nil: not connected
	fresh   bool     // the watches fit fields and layout

	layout    layout
	hierarchy hierarchy
	known     identities
	places    map[string][]collect.Entity // what the driver's library knows of instances, by the GPU's UUID
	learned   time.Time                   // layout and identities; zero: to be read

	events   events
	slow     slow
	answered time.Time // when a GPU last had a value, or the connection was made

	complaints complaints
}

// New opens the library and gives a Source. Read connects, and reconnects
// whenever the host engine was lost. It fails with ErrNoLibrary or
// ErrLibraryTooOld. go-dcgm has one handle: a process has one Source open at a time.
func New(o Options) (collect.Source, error) {
	o = o.withDefaults()
	if !o.embedded() {
		if _, _, err := o.Endpoint(); err != nil {
			return nil, err
		}
	}
	if err := loadLibrary(o.LibraryPath); err != nil {
		return nil, err
	}
	return &reader{
		options: o, buffer: newBuffer(), sampling: sampling{every: time.Second},
		known: identities{}, complaints: complaints{o.Log, map[string]string{}},
		events: events{start: o.now(), window: o.EventWindow, logs: map[string]*collect.EventLog{}},
	}, nil
}

// Close disconnects from the host engine. It is called once.
func (r *reader) Close() error {
	r.buffer.free()
	return r.hangUp()
}

func (r *reader) hangUp() error {
	if r.session == nil {
		return nil
	}
	r.session, r.hierarchy = nil, hierarchy{}
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

// Read returns the last sample of each requested field of each GPU and instance. After
// any failure it closes the connection, since it is unknown which failures a connection
// survives. The next Read connects again.
func (r *reader) Read() (*collect.Reading, error) {
	if r.mustStop() {
		return nil, ErrReleased
	}
	err := r.refresh()
	var reading *collect.Reading
	if err == nil {
		reading, err = r.sample()
	}
	if err != nil {
		return nil, errors.Join(err, r.hangUp())
	}
	return reading, nil
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
	if r.fresh {
		var err error
		if r.fresh, err = r.recheck(); err != nil || r.fresh {
			return err
		}
	}
	found, err := r.readLayout()
	if err != nil {
		return err
	}
	return r.adopt(found)
}

// recheck looks for changes when that is due, and reports whether the watches still fit.
func (r *reader) recheck() (bool, error) {
	stranger := func(gpu entityKey) bool { return r.known[gpu].UUID == "" }
	if r.options.due(r.learned, learnEvery) || slices.ContainsFunc(r.layout.keys(kindGPU), stranger) {
		r.learned = r.options.now()
		if found, err := r.readLayout(); err != nil || !slices.Equal(found, r.layout) {
			return false, err
		}
		if err := r.learnGPUs(); err != nil {
			return false, err
		}
		if remade, err := r.learnInstances(); remade || err != nil {
			r.hierarchy.read = time.Time{}
			return false, err
		}
		if r.session.isBack() {
			return false, nil
		}
	}
	if len(r.absent) > 0 && r.options.due(r.looked, absentEvery) {
		absent, err := r.lookForAbsent()
		return slices.Equal(absent, r.absent), err
	}
	return true, nil
}

// mustStop reports whether the host engine must not run now: an embedded one has NVML's
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
	r.learned = time.Time{}
	err := r.refresh()
	if err != nil {
		err = errors.Join(err, r.hangUp()) // which releases them too
	}
	return err
}

// adopt identifies what is in a layout and sets up its watches.
func (r *reader) adopt(found layout) error {
	for key, e := range r.known {
		listed := slices.ContainsFunc(found, func(e entity) bool { return e.entityKey == key })
		if e.Kind == collect.Instance {
			delete(r.known, key)
		} else if !listed && e.UUID != "" {
			r.events.log(e.UUID).Away(time.Time{})
		}
	}
	r.layout, r.learned = found, r.options.now()
	if err := r.learnGPUs(); err != nil {
		return err
	}
	r.layout = slices.DeleteFunc(found, r.isReleased) // a GPU may have been released before its UUID was known
	if len(r.layout.keys(kindInstance)) > 0 {
		var err error
		r.places, err = nvml.MIGInstances()
		r.complaints.note("placement of MIG instances", err)
		if _, err = r.learnInstances(); err != nil {
			return err
		}
	}
	if err := r.watchAll(); err != nil {
		return err
	}
	absent, err := r.lookForAbsent()
	if err == nil && !slices.Equal(absent, r.absent) {
		r.absent = absent
		r.options.Log.Debug("dcgm: fields that are not supported are sampled more rarely", "fields", absent, "every", absentEvery.String())
		err = r.watchAll()
	}
	if err != nil {
		return err
	}
	r.fresh = true
	r.options.Log.Info("dcgm: layout read", "gpus", len(r.layout.keys(kindGPU)), "instances", len(r.layout.keys(kindInstance)))
	return nil
}

package dcgm

import (
	"errors"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// identityEvery is how often DCGM takes what an entity is: the UUID of an
// instance that was made anew under the same number is seen within it.
const identityEvery = 5 * time.Second

// reader is the part of a Source that talks to DCGM. It is for one goroutine.
type reader struct {
	options Options
	buffer  *buffer

	fields fieldSet
	every  time.Duration

	quiet []string // UUIDs of cards let go of

	session *session // nil: not connected
	backoff backoff
	fresh   bool // the watches fit fields and layout
	layout  layout
	cards   map[uint32]*cardIdentity
	places  map[entityKey]place
	uuids   map[entityKey]string // of instances, as last read
	events  events
	slow    slow

	complaints map[string]string // what was logged of each part
}

func newReader(o Options) *reader {
	return &reader{
		options: o, buffer: newBuffer(), every: time.Second,
		cards: map[uint32]*cardIdentity{}, events: newEvents(o.now(), o.EventWindow), complaints: map[string]string{},
	}
}

func (r *reader) close() error {
	r.buffer.free()
	return r.hangUp()
}

func (r *reader) hangUp() error {
	if r.session == nil {
		return nil
	}
	s := r.session
	r.session = nil
	return s.close()
}

// want takes effect with the next read.
func (r *reader) want(fields []uint16, every time.Duration) {
	r.fields, r.every, r.fresh = newFieldSet(fields), every, false
	if len(r.fields.unknown) > 0 {
		r.options.Log.Warn("DCGM has some fields not", "fields", r.fields.unknown)
	}
}

// keep is how long the host engine keeps samples of which only the last is read.
func (r *reader) keep() time.Duration { return max(3*r.every, 10*time.Second) }

// read gives a Reading. After any failure the connection is given up, since
// nothing tells reliably which failures it survives.
func (r *reader) read() (*collect.Reading, error) {
	if err := r.backoff.wait(r.options.now()); err != nil {
		return nil, err
	}
	reading, err := r.tryRead()
	if err == nil {
		r.backoff.succeeded()
		return reading, nil
	}
	if r.session != nil {
		r.options.Log.Warn("DCGM host engine lost", "error", err)
		err = errors.Join(err, r.hangUp())
	}
	r.backoff.failed(r.options.now(), err)
	return nil, err
}

func (r *reader) tryRead() (*collect.Reading, error) {
	if err := r.refresh(); err != nil {
		return nil, err
	}
	return r.sample()
}

// refresh connects where that is needed and fits the watches to what is there.
func (r *reader) refresh() error {
	if r.session == nil {
		s, err := connect(r.options)
		if err != nil {
			return err
		}
		r.session, r.fresh = s, false
		r.options.Log.Info("DCGM host engine connected")
	}
	now, err := r.readLayout()
	if err != nil {
		return err
	}
	if !r.fresh || !now.equal(r.layout) {
		return r.adopt(now)
	}
	if r.strangers() {
		r.learnCards() // one may have come back
	}
	return nil
}

// quiesce lets go of cards, and takes others back, before it returns.
func (r *reader) quiesce(uuids []string) error {
	r.quiet = uuids
	if r.session == nil {
		return nil // it holds nothing
	}
	err := r.refresh()
	if err != nil {
		err = errors.Join(err, r.hangUp()) // which lets go too
	}
	return err
}

// adopt sets up the watches for a layout and learns who is in it.
func (r *reader) adopt(l layout) error {
	if err := r.session.unwatch(); err != nil {
		// Entities that went away make this fail on some versions; what is
		// left over ends with the connection.
		r.options.Log.Debug("DCGM watches not taken back", "error", err)
	}
	for gpu, id := range r.cards {
		if !slices.Contains(l.gpus, gpu) {
			id.away = true
		}
	}
	r.layout, r.fresh, r.uuids = l, true, map[entityKey]string{}
	r.learnCards()
	r.layout = r.withoutQuiet(l) // one that was let go of before it was known
	r.learnPlaces()
	if err := r.watchAll(); err != nil {
		r.fresh = false
		return err
	}
	r.options.Log.Info("DCGM layout read", "cards", len(l.gpus), "instances", len(l.instances))
	return nil
}

// watchAll watches plain fields on all entities and profiling fields where they
// can be had, then waits for first samples. What is refused takes nothing else
// with it, unless the host engine refuses everything.
func (r *reader) watchAll() error {
	gpus, instances := r.layout.gpuKeys(), r.layout.instanceKeys()
	plain, profiled := split(r.fields.wanted)
	instancePlain, _ := split(intersect(r.fields.instance, r.fields.wanted))
	for _, w := range []struct {
		entities []entityKey
		fields   []uint16
		every    time.Duration
	}{
		{gpus, gpuIdentity, identityEvery},
		{instances, instanceIdentity, identityEvery},
		{gpus, plain, r.every},
		{instances, instancePlain, r.every},
	} {
		if err := r.session.watch(w.entities, w.fields, w.every, r.keep()); err != nil {
			return err
		}
	}
	for _, watch := range []func() error{
		func() error { return r.watchProfiled(profiled) }, r.watchDevices, r.watchHealth,
		r.watchEvents, // last: it keeps samples longer than a plain watch of the same field
	} {
		if err := watch(); err != nil {
			return err
		}
	}
	err := r.session.update()
	if severs(err) {
		return err
	}
	r.complain("first samples", err) // they come by themselves then
	return nil
}

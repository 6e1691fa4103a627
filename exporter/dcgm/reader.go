package dcgm

import (
	"errors"
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

	session *session // nil: not connected
	fresh   bool     // the watches fit fields and layout
	layout  layout
	cards   map[uint32]*cardIdentity
	places  map[entityKey]place
	uuids   map[entityKey]string // of instances, as last read
	xids    xidLog
}

func newReader(o Options) *reader {
	return &reader{
		options: o, buffer: newBuffer(), every: time.Second,
		cards: map[uint32]*cardIdentity{}, xids: newXIDLog(time.Now()),
	}
}

func (r *reader) close() error {
	r.buffer.free()
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
		r.options.Log.Warn("DCGM has some fields not, or not for cards", "fields", r.fields.unknown)
	}
}

// read gives a Reading. After any failure the connection is given up, since
// nothing tells reliably which failures it survives.
func (r *reader) read() (*collect.Reading, error) {
	reading, err := r.tryRead()
	if err != nil && r.session != nil {
		r.options.Log.Warn("DCGM host engine lost", "error", err)
		err = errors.Join(err, r.session.close())
		r.session = nil
	}
	return reading, err
}

func (r *reader) tryRead() (*collect.Reading, error) {
	if r.session == nil {
		s, err := connect(r.options)
		if err != nil {
			return nil, err
		}
		r.session, r.fresh = s, false
		r.options.Log.Info("DCGM host engine connected")
	}
	now, err := readLayout()
	if err != nil {
		return nil, err
	}
	if !r.fresh || !now.equal(r.layout) {
		if err := r.adopt(now); err != nil {
			return nil, err
		}
	} else if r.strangers() {
		r.learnCards() // one may have come back
	}
	return r.sample()
}

// adopt sets up the watches for a layout and learns who is in it.
func (r *reader) adopt(l layout) error {
	if err := r.session.unwatch(); err != nil {
		// Entities that went away make this fail on some versions; what is
		// left over ends with the connection.
		r.options.Log.Debug("DCGM watches not taken back", "error", err)
	}
	r.layout, r.fresh, r.uuids = l, true, map[entityKey]string{}
	r.learnCards()
	r.learnPlaces()
	if err := r.watchAll(); err != nil {
		r.fresh = false
		return err
	}
	r.options.Log.Info("DCGM layout read", "cards", len(l.gpus), "instances", len(l.instances))
	return nil
}

// watchAll watches plain fields on all entities and profiling fields where they
// can be had. A card that refuses profiling takes nothing else with it.
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
		if err := r.session.watch(w.entities, w.fields, w.every); err != nil {
			return err
		}
	}
	if r.fields.wants(fieldXID) {
		// XIDs are read as events too, for which DCGM wants a watch of their own.
		r.xids.watch = len(r.session.watches)
		if err := r.session.watch(gpus, []uint16{fieldXID}, r.every); err != nil {
			return err
		}
	}
	r.watchProfiled(profiled)
	return nil
}

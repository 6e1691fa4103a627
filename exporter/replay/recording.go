package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// key names an entity within a recording: instance -1 is the GPU itself.
type key struct{ gpu, instance int }

func (k key) String() string {
	if k.instance < 0 {
		return fmt.Sprint(k.gpu)
	}
	return fmt.Sprintf("%d/%d", k.gpu, k.instance)
}

// change is one line of a recording: an entity appears or goes, or some of its
// values change.
type change struct {
	key    key
	entity *collect.Entity // appears, without values
	gone   bool
	values []collect.Value // replaced; Time is not set
	blank  []uint16        // no longer given
}

// frame is what changes at an offset from the recording's start.
type frame struct {
	at      time.Duration
	changes []change
}

// Recording is a parsed file; immutable.
type Recording struct {
	frames []frame
	// length of one pass: the "end" line, else the last frame's offset plus
	// the distance to the one before.
	length time.Duration
}

// state holds the entities of a recording at one point.
type state map[key]*collect.Entity

// apply plays a frame.
func (s state) apply(f frame) {
	for _, c := range f.changes {
		switch {
		case c.gone:
			for k := range s {
				if k == c.key || c.key.instance < 0 && k.gpu == c.key.gpu {
					delete(s, k)
				}
			}
		case c.entity != nil:
			e := *c.entity
			if old, ok := s[c.key]; ok {
				e.Values = old.Values
			}
			s[c.key] = &e
		default:
			if e, ok := s[c.key]; ok {
				e.Values = merge(e.Values, c)
			}
		}
	}
}

// merge returns the values after a change, sorted by field, in a new slice: the
// old one may stand in a Reading.
func merge(old []collect.Value, c change) []collect.Value {
	next := slices.Clone(c.values)
	for _, v := range old {
		replaced := slices.ContainsFunc(c.values, func(n collect.Value) bool { return n.Field == v.Field })
		if !replaced && !slices.Contains(c.blank, v.Field) {
			next = append(next, v)
		}
	}
	slices.SortFunc(next, func(a, b collect.Value) int { return cmp.Compare(a.Field, b.Field) })
	return next
}

// reading returns the state as a Reading taken at now, with the fields wanted.
// An instance takes its GPU's identity.
func (s state) reading(now time.Time, wanted func(uint16) bool) *collect.Reading {
	r := &collect.Reading{Taken: now, Dropped: map[string]int{}}
	for k, e := range s {
		device, ok := s[key{k.gpu, -1}]
		if !ok {
			continue
		}
		out := *e
		if k.instance >= 0 {
			out.UUID, out.Model, out.PCIBusID, out.Minor = device.UUID, device.Model, device.PCIBusID, device.Minor
			out.MIG, out.DriverVersion, out.GPUMaxCompute = device.MIG, device.DriverVersion, device.GPUMaxCompute
		}
		out.Values = make([]collect.Value, 0, len(e.Values))
		for _, v := range e.Values {
			if wanted(v.Field) {
				v.Time = now
				out.Values = append(out.Values, v)
			}
		}
		r.Entities = append(r.Entities, out)
	}
	slices.SortFunc(r.Entities, func(a, b collect.Entity) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.InstanceID, b.InstanceID))
	})
	instances := 0 // DCGM counts them over the whole node
	for i := range r.Entities {
		if r.Entities[i].Kind == collect.Instance {
			r.Entities[i].DCGMID = instances
			instances++
		}
	}
	return r
}

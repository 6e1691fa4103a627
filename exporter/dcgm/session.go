package dcgm

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// hostHandle is go-dcgm's connection to the host engine. It is not exported,
// and a second connection beside it would repeat the host engine's work and not
// share its watches, so the shim calls through this one.
//
//go:linkname hostHandle github.com/NVIDIA/go-dcgm/pkg/dcgm.handle
var hostHandle uintptr

// inUse guards go-dcgm's handle, of which there is one in a process.
var inUse atomic.Bool

// session is one connection to a host engine with what was set up over it. Its
// methods are for one goroutine.
type session struct {
	prefix  string // of the names of our groups
	made    int
	watches []watch
	watched map[entityKey][]uint16 // fields
	groups  []godcgm.GroupHandle
	log     *slog.Logger
}

// watch is one group of entities for which one group of fields is taken.
type watch struct {
	group  godcgm.GroupHandle
	fields godcgm.FieldHandle
}

// connect opens the connection. go-dcgm counts its Inits, so each connect needs
// one Shutdown, with which the host engine forgets our watches by itself.
func connect(o Options) (*session, error) {
	mode, where := godcgm.Embedded, []string(nil)
	if !o.embedded() {
		address, unix, err := o.endpoint()
		if err != nil {
			return nil, err
		}
		mode, where = godcgm.Standalone, []string{address, map[bool]string{true: "1", false: "0"}[unix]}
	}
	_, err := godcgm.Init(mode, where...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the DCGM host engine: %w", err)
	}
	if hostHandle == 0 {
		return nil, errors.Join(errors.New("connecting to the DCGM host engine: go-dcgm has no handle"), godcgm.Shutdown())
	}
	return &session{
		prefix:  fmt.Sprintf("gpuscale-%d-%d", os.Getpid(), time.Now().UnixNano()),
		watched: map[entityKey][]uint16{}, log: o.Log,
	}, nil
}

func (s *session) name() string {
	s.made++
	return fmt.Sprintf("%s-%d", s.prefix, s.made)
}

// group makes a group of entities and gives those that are in it. An entity that is
// refused is logged and left out: it may have been removed since the list was read, which
// the next Read finds.
func (s *session) group(entities []entityKey) (godcgm.GroupHandle, []entityKey, error) {
	group, err := godcgm.CreateGroup(s.name())
	if err != nil {
		return group, nil, err
	}
	s.groups = append(s.groups, group)
	var in []entityKey
	for _, e := range entities {
		if err := godcgm.AddEntityToGroup(group, godcgm.Field_Entity_Group(e.kind), uint(e.id)); err != nil {
			s.log.Warn("dcgm: entity not watched", "kind", e.kind, "id", e.id, "error", err)
			continue
		}
		in = append(in, e)
	}
	return group, in, nil
}

// watch makes the host engine sample the fields of all entities at the interval
// and keep the samples. A field that is refused is logged and left out; it is
// an error when nothing is left, or when the host engine refuses everything.
func (s *session) watch(entities []entityKey, fields []uint16, every, keep time.Duration) error {
	if len(entities) == 0 || len(fields) == 0 {
		return nil
	}
	before := len(s.watches)
	var errs error
	for some := range slices.Chunk(entities, maxEntitiesPerGroup) {
		group, in, err := s.group(some)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(fields, maxFieldsPerCall) {
			err := s.watchFields(group, in, part, every, keep)
			if severs(err) {
				return err
			}
			errs = errors.Join(errs, err)
		}
	}
	if len(s.watches) == before {
		return errs
	}
	return nil
}

// watchOne watches a single field and gives its watch; nil where DCGM refuses.
func (s *session) watchOne(entities []entityKey, field uint16, every, keep time.Duration) (*watch, error) {
	before := len(s.watches)
	err := s.watch(entities, []uint16{field}, every, keep)
	if severs(err) {
		return nil, err
	}
	if len(s.watches) == before {
		return nil, nil
	}
	return &s.watches[before], nil
}

// watchFields watches a list of fields. DCGM refuses a list as a whole, so a
// refused list is halved until the refused field is alone.
func (s *session) watchFields(group godcgm.GroupHandle, in []entityKey, fields []uint16, every, keep time.Duration) error {
	handle, err := godcgm.FieldGroupCreate(s.name(), shorts(fields))
	if err != nil {
		return err
	}
	err = callError("watching fields", C.shim_watch(C.uintptr_t(hostHandle), C.uintptr_t(group.GetHandle()),
		C.uintptr_t(handle.GetHandle()), C.int64_t(every.Microseconds()), C.double(keep.Seconds())))
	if err == nil {
		s.watches = append(s.watches, watch{group, handle})
		for _, e := range in {
			s.watched[e] = append(s.watched[e], fields...)
		}
		return nil
	}
	if severs(err) {
		return err
	}
	err = errors.Join(err, godcgm.FieldGroupDestroy(handle))
	if len(fields) == 1 {
		s.log.Warn("dcgm: field not watched", "field", fields[0], "error", err)
		return err
	}
	half := len(fields) / 2
	first := s.watchFields(group, in, fields[:half], every, keep)
	if severs(first) {
		return first
	}
	return errors.Join(first, s.watchFields(group, in, fields[half:], every, keep))
}

// rectangle is entities of which the same fields are watched.
type rectangle struct {
	entities []entityKey
	fields   []uint16 // sorted
}

// rectangles are what is watched of the entities but for some fields: DCGM logs an error for
// each that is read and not watched. Entities with the same fields go together, for few calls.
func (s *session) rectangles(entities []entityKey, but []uint16) []rectangle {
	var out []rectangle
	for _, e := range entities {
		fields := slices.Compact(slices.Sorted(slices.Values(without(s.watched[e], but))))
		if len(fields) == 0 {
			continue
		}
		i := slices.IndexFunc(out, func(r rectangle) bool { return slices.Equal(r.fields, fields) })
		if i < 0 {
			i, out = len(out), append(out, rectangle{fields: fields})
		}
		out[i].entities = append(out[i].entities, e)
	}
	return out
}

// unwatch removes every watch. The host engine drops the rest with the
// connection.
func (s *session) unwatch() error {
	var errs []error
	for _, w := range s.watches {
		errs = append(errs, godcgm.UnwatchFields(w.fields, w.group), godcgm.FieldGroupDestroy(w.fields))
	}
	for _, g := range s.groups {
		errs = append(errs, godcgm.DestroyGroup(g))
	}
	s.watches, s.groups = nil, nil
	clear(s.watched)
	return errors.Join(errs...)
}

func shorts(fields []uint16) []godcgm.Short {
	out := make([]godcgm.Short, len(fields))
	for i, f := range fields {
		out[i] = godcgm.Short(f)
	}
	return out
}

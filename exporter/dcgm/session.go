package dcgm

// #include "shim.h"
import "C"

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
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

// session is one connection to a host engine with what was set up over it. Its
// methods are for one goroutine.
type session struct {
	groups  []godcgm.GroupHandle
	watches []watch
	refused error       // why the last refused watch was not made
	left    []entityKey // entities that no group takes
	log     *slog.Logger
}

// rectangle is entities and the fields of each of them.
type rectangle struct {
	entities []entityKey
	fields   []uint16
}

// watch is a rectangle that the host engine samples.
type watch struct {
	rectangle
	group  godcgm.GroupHandle
	handle godcgm.FieldHandle
}

// connect opens the connection. go-dcgm counts its Inits, so each connect needs
// one Shutdown, with which the host engine forgets our watches by itself.
func connect(o Options) (*session, error) {
	mode, where := godcgm.Embedded, []string(nil)
	if !o.embedded() {
		address, unix, err := o.Endpoint()
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
	return &session{log: o.Log}, nil
}

// groupName is a name that no other group has.
func groupName() string { return fmt.Sprintf("gpuscale-%d-%s", os.Getpid(), rand.Text()) }

// group makes a group of entities and returns those that it contains. A refused entity is
// logged and left out. If it has been removed since the list was read, the next Read
// finds that. If it is of a lost GPU, isBack finds the GPU's return.
func (s *session) group(entities []entityKey) (godcgm.GroupHandle, []entityKey, error) {
	group, err := godcgm.CreateGroup(groupName())
	if err != nil {
		return group, nil, refusal("making a group of entities", err)
	}
	s.groups = append(s.groups, group)
	var in []entityKey
	for _, e := range entities {
		if err := godcgm.AddEntityToGroup(group, godcgm.Field_Entity_Group(e.kind), uint(e.id)); err != nil {
			s.log.Warn("dcgm: entity not watched", "kind", e.kind, "id", e.id, "error", err)
			s.left = append(s.left, e)
			continue
		}
		in = append(in, e)
	}
	return group, in, nil
}

// isBack reports whether a GPU that was left out of a group is there now. DCGM takes no lost or
// detached GPU into a group.
func (s *session) isBack() bool {
	return slices.ContainsFunc(s.left, func(e entityKey) bool {
		return e.kind == kindGPU && godcgm.GetGPUStatus(uint(e.id)) == godcgm.EntityStatusOk
	})
}

// watch makes the host engine sample the fields of the entities at the interval and keep the samples.
// It returns the watches that it made. What is refused is logged and left out. watch fails only if
// the connection is severed.
func (s *session) watch(what rectangle, every, keep time.Duration) ([]watch, error) {
	before := len(s.watches)
	for some := range slices.Chunk(what.entities, maxEntitiesPerGroup) {
		group, in, err := s.group(some)
		if err != nil {
			if err = s.refuse(rectangle{some, what.fields}, err); err != nil {
				return nil, err
			}
			continue
		}
		for part := range slices.Chunk(what.fields, maxFieldsPerCall) {
			if err := s.watchFields(group, rectangle{in, part}, every, keep); err != nil {
				return nil, err
			}
		}
	}
	return s.watches[before:], nil
}

// watchFields watches a list of fields. DCGM refuses a list as a whole, so a
// refused list is halved until the refused field is alone.
func (s *session) watchFields(group godcgm.GroupHandle, what rectangle, every, keep time.Duration) error {
	handle, err := godcgm.FieldGroupCreate(groupName(), shorts(what.fields))
	if err = refusal("making a group of fields", err); err == nil {
		err = callError("watching fields", C.shim_watch(C.uintptr_t(hostHandle), C.uintptr_t(group.GetHandle()),
			C.uintptr_t(handle.GetHandle()), C.int64_t(every.Microseconds()), C.double(keep.Seconds())))
		if err == nil {
			s.watches = append(s.watches, watch{what, group, handle})
			return nil
		}
		err = errors.Join(err, godcgm.FieldGroupDestroy(handle))
	}
	half := len(what.fields) / 2
	if severs(err) || half == 0 {
		return s.refuse(what, err)
	}
	for _, part := range [][]uint16{what.fields[:half], what.fields[half:]} {
		if err := s.watchFields(group, rectangle{what.entities, part}, every, keep); err != nil {
			return err
		}
	}
	return nil
}

// refuse logs what is not watched. It returns the error only if that severs the
// connection.
func (s *session) refuse(what rectangle, err error) error {
	if severs(err) {
		return err
	}
	s.refused = err
	s.log.Warn("dcgm: not watched", "fields", what.fields, "entities", len(what.entities), "error", err)
	return nil
}

// unwatch removes every watch. On some versions that fails for entities that are gone: the host
// engine drops the rest with the connection.
func (s *session) unwatch() {
	var errs []error
	for _, w := range s.watches {
		errs = append(errs, godcgm.UnwatchFields(w.handle, w.group), godcgm.FieldGroupDestroy(w.handle))
	}
	for _, g := range s.groups {
		errs = append(errs, godcgm.DestroyGroup(g))
	}
	s.watches, s.groups, s.refused, s.left = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		s.log.Debug("dcgm: watches not removed", "error", err)
	}
}

func shorts(fields []uint16) []godcgm.Short {
	out := make([]godcgm.Short, len(fields))
	for i, f := range fields {
		out[i] = godcgm.Short(f)
	}
	return out
}

package replay

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Options of a Source.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Source plays a Recording. A value stays until the recording changes it and is
// as fresh as the Read that returns it.
type Source struct {
	recording *Recording
	opts      Options
	start     time.Time

	mu     sync.Mutex
	fields map[uint16]bool // nil: all
	state  state
	next   int // frame to play
	round  int
}

// NewSource starts playing now.
func NewSource(r *Recording, o Options) *Source {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{recording: r, opts: o, start: o.Now(), state: state{}}
}

// Watch limits the values to these fields. The recording determines how often
// they change.
func (s *Source) Watch(fields []uint16, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = make(map[uint16]bool, len(fields))
	for _, f := range fields {
		s.fields[f] = true
	}
	return nil
}

// Read returns the recording's state at this moment. It never fails.
func (s *Source) Read() (*collect.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	played := now.Sub(s.start)
	round, at := 0, played
	if length := s.recording.length; length > 0 {
		round, at = int(played/length), played%length
	}
	if round != s.round {
		s.state, s.next, s.round = state{}, 0, round
	}
	for ; s.next < len(s.recording.frames) && s.recording.frames[s.next].at <= at; s.next++ {
		s.state.apply(s.recording.frames[s.next])
	}
	return s.state.reading(now, func(f uint16) bool { return s.fields == nil || s.fields[f] }), nil
}

// Close does nothing: nothing is open.
func (s *Source) Close() error { return nil }

// ForNode returns the recording with UUIDs of the node's own, so that one file
// can play on many nodes. The same name gives the same UUIDs.
func (r *Recording) ForNode(node string) *Recording {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node))
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	out := &Recording{length: r.length, frames: slices.Clone(r.frames)}
	for i := range out.frames {
		changes := slices.Clone(out.frames[i].changes)
		for j := range changes {
			if changes[j].entity == nil {
				continue
			}
			e := *changes[j].entity
			if e.UUID != "" {
				e.UUID += suffix
			}
			if e.InstanceUUID != "" {
				e.InstanceUUID += suffix
			}
			changes[j].entity = &e
		}
		out.frames[i].changes = changes
	}
	return out
}

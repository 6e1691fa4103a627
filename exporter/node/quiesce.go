package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Bounds of a quiesce. It ends by itself, so that a requester that dies leaves
// no card unwatched.
const (
	DefaultQuiesce = 5 * time.Minute
	MaxQuiesce     = time.Hour
	// releaseWithin is how long letting go may take before it counts as failed.
	releaseWithin = 5 * time.Second
)

// Release is a card that the source has let go of.
type Release struct {
	Card  string    // "GPU-…"
	Until time.Time // when it is taken back unless it was before
}

// errNoSuchCard is a card that the newest reading does not have.
var errNoSuchCard = errors.New("no such card")

// Quiesce lets the source let go of cards, named by UUID or index, so that they
// can be repartitioned or reset. When it returns nil, which takes at most five
// seconds, nothing here holds a handle of them; they are watched again after d
// (0: DefaultQuiesce) or on Resume. Either all cards are let go of or none.
func (n *Node) Quiesce(ctx context.Context, cards []string, d time.Duration) ([]Release, error) {
	if d == 0 {
		d = DefaultQuiesce
	}
	if d < 0 || d > MaxQuiesce {
		return nil, fmt.Errorf("quiescing for %s: want more than 0 and at most %s", d, MaxQuiesce)
	}
	var released []Release
	err := n.sampler.ask(ctx, func(ctx context.Context) error {
		uuids, err := n.uuids(cards)
		if err != nil {
			return err
		}
		before, until := n.sampler.quiesced, time.Now().Add(d)
		next := maps.Clone(before)
		for _, uuid := range uuids {
			next[uuid] = until
			released = append(released, Release{uuid, until})
		}
		if err := n.sampler.release(next); err != nil || ctx.Err() == nil {
			return err
		}
		return n.sampler.release(before) // too late: the requester was told that it failed
	})
	if err != nil {
		return nil, fmt.Errorf("quiescing %q: %w", cards, err)
	}
	n.log.Info("cards let go of", "cards", cards, "for", d.String())
	return released, nil
}

// Resume takes cards back before their time. One that is not quiesced is no
// error.
func (n *Node) Resume(ctx context.Context, cards []string) error {
	err := n.sampler.ask(ctx, func(context.Context) error {
		uuids, err := n.uuids(cards)
		if err != nil {
			return err
		}
		next := maps.Clone(n.sampler.quiesced)
		for _, uuid := range uuids {
			delete(next, uuid)
		}
		return n.sampler.release(next)
	})
	if err != nil {
		return fmt.Errorf("resuming %q: %w", cards, err)
	}
	n.log.Info("cards taken back", "cards", cards)
	return nil
}

// Quiesced returns the cards let go of, sorted.
func (n *Node) Quiesced(ctx context.Context) ([]Release, error) {
	var released []Release
	err := n.sampler.ask(ctx, func(context.Context) error {
		for _, uuid := range slices.Sorted(maps.Keys(n.sampler.quiesced)) {
			released = append(released, Release{uuid, n.sampler.quiesced[uuid]})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking what is quiesced: %w", err)
	}
	return released, nil
}

// uuids resolves names of cards: of those that are read and those let go of.
func (n *Node) uuids(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, errors.New("no card is named")
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		uuid, ok := n.sampler.uuid(name)
		if !ok {
			return nil, fmt.Errorf("%w: %q", errNoSuchCard, name)
		}
		out = append(out, uuid)
	}
	return out, nil
}

// uuid resolves a name. Before the first reading nobody knows the cards, and a
// UUID is taken at its word: nothing is held of it.
func (s *sampler) uuid(name string) (string, bool) {
	if uuid, ok := s.cards[name]; ok {
		return uuid, true
	}
	_, away := s.quiesced[name]
	return name, away || s.cards == nil && strings.HasPrefix(name, "GPU-")
}

// ask runs a job between two passes, on the one goroutine that may reach the
// source, and waits for it at most releaseWithin. A job that nobody waits for
// any more does not begin.
func (s *sampler) ask(ctx context.Context, job func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, releaseWithin, fmt.Errorf("the source does not answer within %s", releaseWithin))
	defer cancel()
	done := make(chan error, 1)
	select {
	case s.jobs <- func() {
		if ctx.Err() == nil {
			done <- job(ctx)
		}
	}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release lets the source hold everything but these cards. A source that holds
// no handles, such as a recording, has nothing to let go of.
func (s *sampler) release(next map[string]time.Time) error {
	if source, ok := s.source.(collect.Quiescer); ok {
		if err := source.Quiesce(slices.Sorted(maps.Keys(next))); err != nil {
			return err
		}
	}
	s.quiesced = next
	s.metrics.quiesced.Set(float64(len(next)))
	return nil
}

// expire takes cards back whose time is over. While the source refuses, every
// pass tries again.
func (s *sampler) expire(now time.Time) {
	next := maps.Clone(s.quiesced)
	maps.DeleteFunc(next, func(_ string, until time.Time) bool { return !now.Before(until) })
	if len(next) == len(s.quiesced) {
		return
	}
	if err := s.release(next); err != nil {
		s.log.Warn("cards not taken back after their time", "error", err)
		return
	}
	s.log.Info("cards taken back after their time", "still", len(next))
}

// know notes the names by which a card can be asked for. A card that was let go
// of is not read and stays known.
func (s *sampler) know(r *collect.Reading) {
	next := map[string]string{}
	for name, uuid := range s.cards {
		if _, away := s.quiesced[uuid]; away {
			next[name] = uuid
		}
	}
	for i := range r.Entities {
		if e := &r.Entities[i]; e.Kind == collect.GPU && e.UUID != "" {
			next[e.UUID], next[strconv.Itoa(e.GPU)] = e.UUID, e.UUID
		}
	}
	s.cards = next
}

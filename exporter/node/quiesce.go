package node

import (
	"cmp"
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

// Bounds of a quiesce. It ends by itself, so that no GPU stays unwatched when
// the requester dies.
const (
	DefaultQuiesce = 5 * time.Minute
	MaxQuiesce     = time.Hour
	// releaseWithin bounds a release; a longer one fails.
	releaseWithin = 5 * time.Second
)

// Release is a GPU that the source has released.
type Release struct {
	GPU   string    `json:"gpu"`   // "GPU-…"
	Until time.Time `json:"until"` // when it is reacquired at the latest
}

func newRelease(uuid string, until time.Time) Release {
	return Release{uuid, until.UTC().Truncate(time.Second)}
}

// Quiesce releases GPUs, named by UUID or index, so that they can be
// repartitioned or reset. It takes at most five seconds. When it returns nil,
// this process has no handle of them; they are watched again after d (0:
// DefaultQuiesce) or on Resume. Either all GPUs are released or none. An
// embedded host engine has handles of all GPUs, so meanwhile none has values; a
// remote one is another process, which keeps its handles.
func (s *sampler) Quiesce(ctx context.Context, gpus []string, d time.Duration) ([]Release, error) {
	d = cmp.Or(d, DefaultQuiesce)
	if d < 0 || d > MaxQuiesce {
		return nil, fmt.Errorf("quiescing for %s: want more than 0 and at most %s", d, MaxQuiesce)
	}
	var released []Release
	err := s.between(ctx, func(ctx context.Context) error {
		uuids, err := s.uuids(gpus)
		if err != nil {
			return err
		}
		before, next, until := s.quiesced(), maps.Clone(s.quiesced()), time.Now().Add(d)
		for _, uuid := range uuids {
			next[uuid] = until
			released = append(released, newRelease(uuid, until))
		}
		if err = s.release(next); err != nil || ctx.Err() != nil { // the source or Beside refuses, or the request has ended
			err = cmp.Or(err, s.release(before))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("quiescing %q: %w", gpus, err)
	}
	s.log.Info("GPUs released", "gpus", gpus, "for", d.String())
	return released, nil
}

// Resume reacquires GPUs before their time. One that is not quiesced is no
// error.
func (s *sampler) Resume(ctx context.Context, gpus []string) error {
	err := s.between(ctx, func(context.Context) error {
		uuids, err := s.uuids(gpus)
		if err != nil {
			return err
		}
		next := maps.Clone(s.quiesced())
		maps.DeleteFunc(next, func(uuid string, _ time.Time) bool { return slices.Contains(uuids, uuid) })
		return s.release(next)
	})
	if err != nil {
		return fmt.Errorf("resuming %q: %w", gpus, err)
	}
	s.log.Info("GPUs reacquired", "gpus", gpus)
	return nil
}

// Quiesced returns the released GPUs, sorted. It waits for nothing.
func (s *sampler) Quiesced() (released []Release) {
	now := s.quiesced()
	for _, uuid := range slices.Sorted(maps.Keys(now)) {
		released = append(released, newRelease(uuid, now[uuid]))
	}
	return released
}

// quiesced returns the released GPUs by UUID and the end of each release. The map
// must not be changed.
func (s *sampler) quiesced() map[string]time.Time { return *s.released.Load() }

// uuids resolves names of GPUs: of those that are read and those released. Before the first reading
// the GPUs are unknown, and any UUID is accepted: no handle of it is open.
func (s *sampler) uuids(names []string) (out []string, err error) {
	if len(names) == 0 {
		return nil, errors.New("no GPU is given")
	}
	for _, name := range names {
		uuid, known := s.gpus[name]
		if _, away := s.quiesced()[name]; !known && !away && (s.gpus != nil || !strings.HasPrefix(name, "GPU-")) {
			return nil, fmt.Errorf("no such GPU: %q", name)
		}
		out = append(out, cmp.Or(uuid, name))
	}
	return out, nil
}

// between runs a job between two passes, on the one goroutine that may reach the
// source, and waits for it at most releaseWithin. A job whose caller has given
// up does not begin.
func (s *sampler) between(ctx context.Context, job func(context.Context) error) error {
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

// release makes the source and Options.Beside release these GPUs and reacquire all
// others. A source without handles, such as a recording, has nothing to release.
func (s *sampler) release(next map[string]time.Time) error {
	uuids := slices.Sorted(maps.Keys(next))
	var err error
	if source, ok := s.opts.Source.(collect.Quiescer); ok {
		err = source.Quiesce(uuids)
	}
	if s.opts.Beside != nil {
		err = errors.Join(err, s.opts.Beside.Quiesce(uuids))
	}
	if err != nil {
		return err
	}
	s.failures = min(s.failures, 1) // the source may answer now
	s.released.Store(&next)
	s.metrics.quiesced.Set(float64(len(next)))
	return nil
}

// expire reacquires GPUs whose time is over. While the source refuses, every
// pass tries again.
func (s *sampler) expire(now time.Time) {
	next := maps.Clone(s.quiesced())
	maps.DeleteFunc(next, func(_ string, until time.Time) bool { return !now.Before(until) })
	if len(next) == len(s.quiesced()) {
		return
	}
	if err := s.release(next); err != nil {
		s.log.Warn("expired GPUs not reacquired", "error", err)
		return
	}
	s.log.Info("expired GPUs reacquired", "still", len(next))
}

// know records the names of the GPUs read. A released GPU is not read and stays
// known.
func (s *sampler) know(r *collect.Reading) {
	next := map[string]string{}
	for name, uuid := range s.gpus {
		if _, away := s.quiesced()[uuid]; away {
			next[name] = uuid
		}
	}
	for i := range r.Entities {
		if e := &r.Entities[i]; e.Kind == collect.GPU && e.UUID != "" {
			next[e.UUID], next[strconv.Itoa(e.GPU)] = e.UUID, e.UUID
		}
	}
	s.gpus = next
}

package crashstory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Rounds that must end well before something is believed to have been seen by the
// autoscaler, and before the end of the story is believed: what is still to happen
// happens in the next rounds.
const (
	seenAfter    = 2
	settledAfter = 5
)

// Play plays the story once with a replica whose calls meet a fault. The replica
// is killed and started again as often as the fault says. It returns what there
// is at the end and the calls that were made; an error is a story that got
// stuck, which says where.
func (b *Bed) Play(ctx context.Context, r *replica, fault Faults) (State, []Note, error) {
	if err := errors.Join(b.clear(ctx), b.set(ctx)); err != nil {
		return nil, nil, err
	}
	r.Arm(fault, r.crash, nil)
	defer r.kill()
	if err := r.start(); err != nil {
		return nil, nil, err
	}
	end, err := b.tell(ctx, func() *replica { return r })
	return end, r.Notes(), err
}

// tell plays the story; leader is the replica that leads at the time.
func (b *Bed) tell(ctx context.Context, leader func() *replica) (State, error) {
	for _, s := range theStory() {
		begun := time.Now()
		if err := b.playStep(ctx, s); err != nil {
			return nil, err
		}
		// What people do next is to meet an autoscaler that has seen all of this,
		// or which pod it chooses would depend on the clock.
		if err := b.settle(ctx, leader, seenAfter); err != nil {
			return nil, fmt.Errorf("after %s: %w", s.name, err)
		}
		b.o.Log.Debug("step", "name", s.name, "took", time.Since(begun).Round(time.Millisecond))
	}
	if err := b.settle(ctx, leader, settledAfter); err != nil {
		return nil, err
	}
	return b.result(ctx)
}

func (b *Bed) playStep(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("stuck where %s", s.name))
	defer cancel()
	if err := s.do(b.stage, ctx); err != nil {
		return fmt.Errorf("where %s: %w", s.name, err)
	}
	return awaitNone(ctx, func(ctx context.Context) (string, error) { return s.until(b.stage, ctx) })
}

// settle waits until the cards have been read and the leader has turned n times.
func (b *Bed) settle(ctx context.Context, leader func() *replica, n float64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the autoscaler does not go on"))
	defer cancel()
	asked := b.fleet.readings()
	if err := awaitNone(ctx, func(context.Context) (string, error) {
		if b.fleet.readings() < asked+2 { // the first may have begun before
			return "Prometheus is not asked", nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	return turned(ctx, leader, n)
}

package crashstory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
)

// Reconciles that must succeed before the autoscaler counts as having seen a step,
// and before the end of the story counts as final.
const (
	seenAfter    = 2
	settledAfter = 5
)

// Play plays the story once with a replica whose calls meet a fault. The replica
// is killed and started again as often as the fault says. It returns the
// state at the end and the calls that were made; the error of a story that got
// stuck names the step.
func (b *Env) Play(ctx context.Context, r *replica, fault Faults) (State, []Note, error) {
	if err := errors.Join(b.clear(ctx), b.set(ctx)); err != nil {
		return nil, nil, err
	}
	r.Arm(fault, r.crash, nil)
	defer r.kill()
	if err := r.start(); err != nil {
		return nil, nil, err
	}
	end, err := b.playAll(ctx, func() *replica { return r })
	return end, r.Notes(), err
}

// playAll plays all steps; leader is the replica that leads at the time.
func (b *Env) playAll(ctx context.Context, leader func() *replica) (State, error) {
	for _, s := range theStory() {
		begun := time.Now()
		if err := b.playStep(ctx, s); err != nil {
			return nil, err
		}
		// The next step begins when the autoscaler has seen this one: otherwise
		// the pod that it chooses would depend on the clock.
		if err := b.settle(ctx, leader, seenAfter); err != nil {
			return nil, fmt.Errorf("after %s: %w", s.name, err)
		}
		b.log.Debug("step", "name", s.name, "took", time.Since(begun).Round(time.Millisecond))
	}
	if err := b.settle(ctx, leader, settledAfter); err != nil {
		return nil, err
	}
	return b.result(ctx)
}

func (b *Env) playStep(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("stuck where %s", s.name))
	defer cancel()
	if err := s.do(b.stage, ctx); err != nil {
		return fmt.Errorf("where %s: %w", s.name, err)
	}
	return await.Until(ctx, func(ctx context.Context) error { return s.until(b.stage, ctx) })
}

// settle waits until the GPUs have been read and the leader has reconciled n times.
func (b *Env) settle(ctx context.Context, leader func() *replica, n float64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the autoscaler does not go on"))
	defer cancel()
	asked := b.fleet.readings()
	if err := await.Until(ctx, func(context.Context) error {
		if b.fleet.readings() < asked+2 { // the first may have begun before
			return errors.New("Prometheus is not asked")
		}
		return nil
	}); err != nil {
		return err
	}
	return turned(ctx, leader, n)
}

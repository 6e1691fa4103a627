package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// maxSteps is more than any two layouts are apart.
const maxSteps = 64

// step is one change of a GPU.
type step struct {
	mig.Step
	instance int // to destroy
}

// repartition brings the GPU to a layout, one step at a time. Each step follows from the GPU's
// state, independent of earlier steps.
func (j *job) repartition(ctx context.Context, layout string) error {
	for range maxSteps {
		c, allocated, err := j.look(ctx)
		if err != nil {
			return err
		}
		next, done, err := nextStep(c, layout, allocated)
		if err != nil || done {
			return err
		}
		if err := unused(c, next, allocated); err != nil {
			return err
		}
		if err := j.quiesce(ctx); err != nil {
			return err
		}
		before := j.answer.Touched
		j.answer.Touched = true
		if err := j.note(ctx, next.String()); err != nil {
			j.answer.Touched = before
			return err
		}
		// The exporter takes seconds to release a GPU. In that time the kubelet may start a pod that was
		// bound before the cordon.
		if c, allocated, err = j.look(ctx); err != nil {
			return err
		}
		if err := unused(c, next, allocated); err != nil {
			return err
		}
		if err := j.do(ctx, c, next); err != nil {
			return fmt.Errorf("%s: %w", next, err)
		}
	}
	return fmt.Errorf("GPU %d has not reached the layout after %d steps", j.record.GPU, maxSteps)
}

// look reads the record's GPU, and what is allocated.
func (j *job) look(ctx context.Context) (c hardware.GPU, allocated map[string]string, err error) {
	m, err := j.a.read(ctx)
	if err != nil {
		return c, nil, err
	}
	if c, err = find(m, j.record.UUID, j.record.GPU); err != nil {
		return c, nil, err
	}
	allocated, err = j.a.o.Kubelet.Allocations(ctx)
	return c, allocated, err
}

// find returns the GPU of a record by its UUID: its index may be another GPU's by now.
func find(m hardware.Machine, uuid string, index int) (hardware.GPU, error) {
	for _, c := range m.GPUs {
		if c.UUID != uuid {
			continue
		}
		switch {
		case c.Err != nil:
			return hardware.GPU{}, fmt.Errorf("GPU %d: %w", c.Index, c.Err)
		case !c.CanMIG:
			return hardware.GPU{}, fmt.Errorf("GPU %d: %s has no MIG", c.Index, c.Product)
		case c.MIG != c.PendingMIG:
			return hardware.GPU{}, fmt.Errorf("GPU %d: %w: a change of the MIG mode is pending", c.Index, hardware.ErrNeedsReset)
		}
		return c, nil
	}
	for _, c := range m.GPUs {
		if c.Err != nil {
			return hardware.GPU{}, fmt.Errorf("GPU %d (%s) is not there; GPU %d: %w", index, uuid, c.Index, c.Err)
		}
	}
	return hardware.GPU{}, fmt.Errorf("GPU %d (%s) is not there", index, uuid)
}

// inMIG returns an error for a GPU that is not in MIG mode: it may have left it at a reboot. The agent does not change the mode.
func inMIG(c hardware.GPU) error {
	if !c.MIG {
		return fmt.Errorf("GPU %d: MIG mode is off", c.Index)
	}
	return nil
}

// nextStep returns the next step towards a layout. done is true if there is none. The error names a busy instance that
// is in the way.
func nextStep(c hardware.GPU, layout string, allocated map[string]string) (next step, done bool, err error) {
	if err := inMIG(c); err != nil {
		return step{}, false, err
	}
	want, err := parse(c, layout)
	if err != nil {
		return step{}, false, err
	}
	at := map[mig.Placement]hardware.Instance{}
	for _, i := range c.Instances {
		at[i.Placement] = i
		if !i.Whole && !slices.Contains(want, i.Placement) {
			return step{Step: mig.Step{Placement: i.Placement}, instance: i.ID}, false, nil
		}
	}
	steps, err := mig.Diff(c.Layout(), want, func(p mig.Placement) bool { return allocatedTo(at[p], allocated) != "" })
	if err != nil || len(steps) == 0 {
		return step{}, err == nil, err
	}
	return step{Step: steps[0], instance: at[steps[0].Placement].ID}, false, nil
}

// unused returns an error if a pod or a process uses the instance that a step destroys.
func unused(c hardware.GPU, next step, allocated map[string]string) error {
	for _, i := range c.Instances {
		if h := allocatedTo(i, allocated); h != "" && !next.Create && i.ID == next.instance {
			return fmt.Errorf("%s: it is allocated to %s", next, h)
		}
	}
	return nil
}

func (j *job) do(ctx context.Context, c hardware.GPU, s step) error {
	h, m := j.a.o.Hardware, j.a.o.Metrics
	if s.Create {
		return m.step(verbCreate, func() error { return h.Create(ctx, c.UUID, s.Placement) })
	}
	return m.step(verbDestroy, func() error { return h.Destroy(ctx, c.UUID, s.instance) })
}

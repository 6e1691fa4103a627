package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

type (
	machine = hardware.Machine
	device  = hardware.GPU
)

// maxSteps is more than any two layouts are apart.
const maxSteps = 64

// step is one change of a GPU.
type step struct {
	mig.Step
	instance int // to destroy
	mode     bool
	on       bool // with mode
}

func (s step) String() string {
	switch {
	case s.mode && s.on:
		return "switch MIG on"
	case s.mode:
		return "switch MIG off"
	}
	return s.Step.String()
}

// repartition brings the GPU to a layout, one step at a time. Each step follows from the GPU's
// state, independent of earlier steps.
func (j *job) repartition(ctx context.Context, layout string, whole bool) error {
	for range maxSteps {
		j.a.Health.beat()
		m, c, allocated, err := j.look(ctx)
		if err != nil {
			return err
		}
		next, done, err := nextStep(c, layout, whole, allocated)
		if err != nil || done {
			return err
		}
		if err := j.prepare(ctx, m, c, next, allocated); err != nil {
			return err
		}
		before := j.answer.Touched
		j.answer.Touched = true
		if err := j.note(ctx, next.String()); err != nil {
			j.answer.Touched = before
			return err
		}
		// The exporter takes seconds to release a GPU, in which the kubelet may start a pod that was
		// bound before the cordon.
		if m, c, allocated, err = j.look(ctx); err != nil {
			return err
		}
		if err := unused(affects(m, c, next), next, allocated); err != nil {
			return err
		}
		if err := j.do(ctx, c, next); err != nil {
			return fmt.Errorf("%s: %w", next, err)
		}
	}
	return fmt.Errorf("GPU %d has not reached the layout after %d steps", j.record.GPU, maxSteps)
}

// look reads the GPUs, the record's among them, and what is allocated.
func (j *job) look(ctx context.Context) (m machine, c device, allocated map[string]string, err error) {
	if m, err = j.a.read(ctx); err != nil {
		return m, c, nil, err
	}
	if c, err = find(m, j.record.UUID, j.record.GPU); err != nil {
		return m, c, nil, err
	}
	allocated, err = j.a.o.Kubelet.Allocations(ctx)
	return m, c, allocated, err
}

// find returns the GPU of a record by its UUID: its index may be another GPU's by now.
func find(m machine, uuid string, index int) (device, error) {
	for _, c := range m.GPUs {
		if c.UUID != uuid {
			continue
		}
		switch {
		case c.Err != nil:
			return device{}, fmt.Errorf("GPU %d: %w", c.Index, c.Err)
		case !c.CanMIG:
			return device{}, fmt.Errorf("GPU %d: %s has no MIG", c.Index, c.Product)
		case c.MIG != c.PendingMIG:
			return device{}, fmt.Errorf("GPU %d: %w: a change of the MIG mode is pending", c.Index, hardware.ErrNeedsReset)
		}
		return c, nil
	}
	for _, c := range m.GPUs {
		if c.Err != nil {
			return device{}, fmt.Errorf("GPU %d (%s) is not there; GPU %d: %w", index, uuid, c.Index, c.Err)
		}
	}
	return device{}, fmt.Errorf("GPU %d (%s) is not there", index, uuid)
}

// tableOf returns the driver's own table of a GPU; the built-in one where MIG is off and the driver
// reports none.
func tableOf(c device) (*mig.Table, error) {
	if len(c.Spec.Profiles) > 0 {
		return mig.NewTable(c.Spec)
	}
	if t, ok := mig.ForModel(gpu.ProductName(c.Product)); ok {
		return t, nil
	}
	return nil, fmt.Errorf("GPU %d: %s: what it can be partitioned into is known in MIG mode only", c.Index, c.Product)
}

// nextStep returns the next step towards a layout, or towards disabling MIG. done is true if there
// is none. The error names a busy instance that is in the way.
func nextStep(c device, layout string, whole bool, allocated map[string]string) (next step, done bool, err error) {
	switch {
	case whole && !c.MIG:
		return step{}, true, nil
	case whole && len(c.Instances) == 0:
		return step{mode: true}, false, nil
	case !whole && !c.MIG:
		return step{mode: true, on: true}, false, nil
	}
	if whole {
		layout = "empty"
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

// prepare checks that a step may be done, and has the exporter release the GPUs it affects.
func (j *job) prepare(ctx context.Context, m machine, c device, next step, allocated map[string]string) error {
	if next.mode && !j.a.o.Config.AllowModeChange && !j.answer.Touched {
		return fmt.Errorf("GPU %d is not in MIG mode, and the agent may not switch it (allowModeChange)", c.Index)
	}
	affected := affects(m, c, next)
	if err := unused(affected, next, allocated); err != nil {
		return err
	}
	var gpus []string
	for _, other := range affected {
		if other.UUID != "" {
			gpus = append(gpus, other.UUID)
		}
	}
	return j.quiesce(ctx, gpus)
}

// affects returns the GPUs that a step affects: all of the node where a change of the MIG mode resets
// them.
func affects(m machine, c device, next step) []device {
	if next.mode && resets(c.Product) {
		return m.GPUs
	}
	return []device{c}
}

// unused returns which pod or process uses what a step takes away, nil for none.
func unused(affected []device, next step, allocated map[string]string) error {
	for _, c := range affected {
		if next.mode {
			if err := idle(c, allocated); err != nil {
				return fmt.Errorf("%s: %w", next, err)
			}
		}
		for _, i := range c.Instances {
			if h := allocatedTo(i, allocated); h != "" && !next.mode && !next.Create && i.ID == next.instance {
				return fmt.Errorf("%s: it is allocated to %s", next, h)
			}
		}
	}
	return nil
}

// resets reports whether a product must be reset to change its MIG mode: the Ampere ones.
func resets(product string) bool {
	name := gpu.ProductName(product)
	return slices.ContainsFunc([]string{"A100", "A800", "A30", "PG506"}, func(ampere string) bool { return strings.HasPrefix(name, ampere) })
}

// idle returns what uses a GPU, nil for nothing. A GPU that cannot be read may be in use.
func idle(c device, allocated map[string]string) error {
	if c.Err != nil {
		return fmt.Errorf("GPU %d: %w", c.Index, c.Err)
	}
	if pod := allocated[c.UUID]; pod != "" {
		return fmt.Errorf("GPU %d is allocated to %s", c.Index, pod)
	}
	if len(c.PIDs) > 0 {
		return fmt.Errorf("GPU %d: %w %d", c.Index, hardware.ErrInUse, c.PIDs[0])
	}
	for _, i := range c.Instances {
		if h := allocatedTo(i, allocated); h != "" {
			return fmt.Errorf("GPU %d: %s is allocated to %s", c.Index, i.Placement, h)
		}
	}
	return nil
}

func (j *job) do(ctx context.Context, c device, s step) error {
	switch h, m := j.a.o.Hardware, j.a.o.Metrics; {
	case s.mode:
		return m.step(verbMode, func() error { return h.SetMode(ctx, c.UUID, s.on) })
	case s.Create:
		return m.step(verbCreate, func() error { return h.Create(ctx, c.UUID, s.Placement) })
	default:
		return m.step(verbDestroy, func() error { return h.Destroy(ctx, c.UUID, s.instance) })
	}
}

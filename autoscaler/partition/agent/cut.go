package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

type (
	machine = hardware.Machine
	card    = hardware.Card
)

// maxSteps is more than any two layouts are apart.
const maxSteps = 64

// step is one change of a card.
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

// cut makes the card have a layout, one step at a time. Each step is found by
// looking at the card, whoever did those before.
func (j *job) cut(ctx context.Context, layout string, whole bool) error {
	for range maxSteps {
		j.a.Health.beat()
		m, err := j.a.o.Hardware.Read(ctx)
		if err != nil {
			return err
		}
		c, err := find(m, j.record.UUID, j.record.Card)
		if err != nil {
			return err
		}
		held, err := j.a.o.Holders.Held(ctx)
		if err != nil {
			return err
		}
		next, done, err := nextStep(c, layout, whole, held)
		if err != nil || done {
			return err
		}
		if err := j.prepare(ctx, m, c, next, held); err != nil {
			return err
		}
		before := j.answer.Touched
		j.answer.Touched = true
		if err := j.note(ctx, next.String()); err != nil {
			j.answer.Touched = before
			return err
		}
		if err := j.do(ctx, c, next); err != nil {
			return fmt.Errorf("%s: %w", next, err)
		}
	}
	return fmt.Errorf("card %d is not as it should be after %d steps", j.record.Card, maxSteps)
}

// find the card of a record: by its UUID, or its index where that is not known.
func find(m machine, uuid string, index int) (card, error) {
	for _, c := range m.Cards {
		if uuid != "" && c.UUID != uuid || uuid == "" && c.Index != index {
			continue
		}
		switch {
		case c.Err != nil:
			return card{}, fmt.Errorf("card %d: %w", c.Index, c.Err)
		case !c.CanMIG:
			return card{}, fmt.Errorf("card %d: %s has no MIG", c.Index, c.Product)
		case c.MIG != c.PendingMIG:
			return card{}, fmt.Errorf("card %d: %w: somebody has asked for another MIG mode", c.Index, hardware.ErrNeedsReset)
		}
		return c, nil
	}
	for _, c := range m.Cards {
		if c.Err != nil {
			return card{}, fmt.Errorf("card %d (%s) is not there; card %d: %w", index, uuid, c.Index, c.Err)
		}
	}
	return card{}, fmt.Errorf("card %d (%s) is not there", index, uuid)
}

// tableOf is the driver's own table of a card; ours where MIG is off and the
// driver does not say.
func tableOf(c card) (*mig.Table, error) {
	if len(c.Spec.Profiles) > 0 {
		return mig.NewTable(c.Spec)
	}
	if t, ok := mig.ForModel(gpu.ProductName(c.Product)); ok {
		return t, nil
	}
	return nil, fmt.Errorf("card %d: %s: what it can be cut into is known in MIG mode only", c.Index, c.Product)
}

// nextStep towards a layout, or towards MIG switched off. done is true where there
// is none. The error names an instance in the way that is busy.
func nextStep(c card, layout string, whole bool, held map[string]string) (next step, done bool, err error) {
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
	steps, err := mig.Diff(c.Layout(), want, func(p mig.Placement) bool { return holder(at[p], held) != "" })
	if err != nil || len(steps) == 0 {
		return step{}, err == nil, err
	}
	return step{Step: steps[0], instance: at[steps[0].Placement].ID}, false, nil
}

// prepare makes sure that a step may be done, and has the exporter let go of what
// it is about.
func (j *job) prepare(ctx context.Context, m machine, c card, next step, held map[string]string) error {
	cards := []string{c.UUID}
	if next.mode {
		if !j.a.o.Config.AllowModeChange && !j.answer.Touched {
			return fmt.Errorf("card %d is not in MIG mode, and the agent may not switch it (allowModeChange)", c.Index)
		}
		affected := []card{c}
		if resets(c.Product) {
			affected, cards = m.Cards, nil
			for _, other := range m.Cards {
				if other.UUID != "" {
					cards = append(cards, other.UUID)
				}
			}
		}
		for _, other := range affected {
			if err := idle(other, held); err != nil {
				return fmt.Errorf("%s: %w", next, err)
			}
		}
	}
	return j.quiesce(ctx, cards)
}

// resets reports whether a product must be reset to change its MIG mode: the
// Ampere ones.
func resets(product string) bool {
	name := gpu.ProductName(product)
	for _, ampere := range []string{"A100", "A800", "A30", "PG506"} {
		if strings.HasPrefix(name, ampere) {
			return true
		}
	}
	return false
}

// idle says who uses a card, nil for nobody. A card that cannot be read may be
// used.
func idle(c card, held map[string]string) error {
	if c.Err != nil {
		return fmt.Errorf("card %d: %w", c.Index, c.Err)
	}
	if pod := held[c.UUID]; pod != "" {
		return fmt.Errorf("card %d is held by %s", c.Index, pod)
	}
	if len(c.PIDs) > 0 {
		return fmt.Errorf("card %d: %w %d", c.Index, hardware.ErrInUse, c.PIDs[0])
	}
	for _, i := range c.Instances {
		if h := holder(i, held); h != "" {
			return fmt.Errorf("card %d: %s is held by %s", c.Index, i.Placement, h)
		}
	}
	return nil
}

func (j *job) do(ctx context.Context, c card, s step) error {
	switch h := j.a.o.Hardware; {
	case s.mode:
		return h.SetMode(ctx, c.UUID, s.on)
	case s.Create:
		return h.Create(ctx, c.UUID, s.Placement)
	default:
		return h.Destroy(ctx, c.UUID, s.instance)
	}
}

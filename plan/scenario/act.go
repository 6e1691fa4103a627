package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// decide checks the world, makes a plan and calls Check with it. Where Check fails, the error
// has the plan's text.
func (w *World) decide() (plan.Plan, error) {
	s := w.Sim.Snapshot()
	if err := errors.Join(s.Check(), w.Policy.Check()); err != nil {
		return plan.Plan{}, err
	}
	made := plan.Make(s, w.Policy)
	if w.Check != nil {
		if err := w.Check(s, w.Policy, made); err != nil {
			return made, fmt.Errorf("%w\n%s", err, made)
		}
	}
	return made, nil
}

// plan prints the actions and the verdicts on pending pods and on pools; with
// "all" every verdict. With "apply" the actions are started.
func (w *World) plan(x *fields) (string, error) {
	all, apply := x.has("all"), x.has("apply")
	if err := x.err(); err != nil {
		return "", err
	}
	made, err := w.decide()
	if err != nil {
		return "", err
	}
	if apply {
		if err := w.Sim.Apply(made); err != nil {
			return made.String(), err
		}
	}
	if all {
		return made.String(), nil
	}
	return brief(made), nil
}

// brief is a plan without the verdicts that change nothing.
func brief(p plan.Plan) string {
	p.Verdicts = slices.DeleteFunc(slices.Clone(p.Verdicts), func(v plan.Verdict) bool {
		switch v.Kind {
		case plan.KindGPU, plan.KindNode:
			return true
		}
		return v.Reason == plan.Running || v.Reason == plan.WithinGuarantee
	})
	return p.String()
}

// settle plans, acts and advances until the time has passed, and prints actions
// and events. The same actions in the same state as before are an error: the
// loop would not end.
func (w *World) settle(x *fields) (string, error) {
	length, every := 10*time.Minute, 10*time.Second
	x.duration("for", &length)
	x.duration("every", &every)
	if err := x.err(); err != nil {
		return "", err
	}
	if every <= 0 || length < 0 || length/every > 100000 {
		return "", fmt.Errorf("for=%s every=%s is too many reconciles", length, every)
	}
	return w.reconciles(length, every)
}

func (w *World) reconciles(length, every time.Duration) (string, error) {
	var b strings.Builder
	start := w.Sim.State.Now
	seen := map[string]bool{}
	for {
		b.WriteString(eventsText(w.Sim.Advance(0), start))
		made, err := w.decide()
		if err != nil {
			return b.String(), err
		}
		if len(made.Actions) > 0 {
			state := w.Sim.Fingerprint() + actionsText(made)
			if seen[state] {
				return b.String(), fmt.Errorf("the world goes in circles: after %s it is as it was before\n%s",
					w.Sim.State.Now.Sub(start), actionsText(made))
			}
			seen[state] = true
		}
		for _, a := range made.Actions {
			fmt.Fprintf(&b, "+%s %s\n", sample.Short(w.Sim.State.Now.Sub(start)), a)
		}
		if err := w.Sim.Apply(made); err != nil {
			return b.String(), err
		}
		if w.Sim.State.Now.Sub(start)+every > length {
			return b.String(), nil
		}
		b.WriteString(eventsText(w.Sim.Advance(every), start))
	}
}

func actionsText(p plan.Plan) string {
	var b strings.Builder
	for _, a := range p.Actions {
		a.Operation, a.Detail, a.For = "", "", nil // what differs between two reconciles of a loop
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}

func eventsText(events []sim.Event, start time.Time) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "+%s %s\n", sample.Short(e.At.Sub(start)), e.Text)
	}
	return b.String()
}

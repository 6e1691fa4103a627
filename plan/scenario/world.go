package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// World is a simulated world that a scenario builds and acts in.
type World struct {
	Sim    *sim.World
	Policy plan.Policy
	// Check, where set, is called with every plan before it is printed or applied;
	// its error ends the statement.
	Check func(s plan.Snapshot, p plan.Policy, made plan.Plan) error

	sized, targeted map[string]bool // pools whose size and target were stated
	pods            map[string]int  // podIndex, nil until it is used
}

// Epoch is the start time of a scenario without a time of its own.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewWorld returns an empty world at Epoch with the default policy, but without soft
// taints: nearly every plan would have one.
func NewWorld() *World {
	policy := plan.DefaultPolicy()
	policy.SoftTaints = false
	return &World{Sim: &sim.World{State: plan.Snapshot{Now: Epoch}}, Policy: policy, sized: map[string]bool{}, targeted: map[string]bool{}}
}

// Exec executes statements and returns their output. The error names the line,
// counted within text; statements before it have been executed.
func (w *World) Exec(text string) (string, error) {
	statements, err := split(text)
	if err != nil {
		return "", err
	}
	w.pods = nil // the caller may have changed the world since
	var b strings.Builder
	for _, s := range statements {
		out, err := w.do(s)
		b.WriteString(out)
		if err != nil {
			return b.String(), fmt.Errorf("line %d: %s: %w", s.line, s.verb, err)
		}
	}
	return b.String(), nil
}

var verbs = []string{"policy", "pool", "node", "gpu", "quota", "pod", "forecast", "tick", "plan", "settle"}

func (w *World) do(s statement) (out string, err error) {
	if s.verb != "pod" {
		w.pods = nil
	}
	name, ok := s.name()
	switch {
	case !slices.Contains(verbs, s.verb):
		return "", fmt.Errorf("there is no such verb; the verbs are %s", strings.Join(verbs, ", "))
	case s.named() && !ok:
		return "", fmt.Errorf("takes a name first")
	}
	names, err := s.names(name)
	for i := 0; i < len(names) && err == nil; i++ {
		out, err = w.one(s, names[i])
	}
	return out, err
}

// one executes a statement about one thing, or about none.
func (w *World) one(s statement, name string) (out string, err error) {
	x := reading(s, w.Sim.State.Now)
	switch s.verb {
	case "policy":
		policyFields(x, &w.Policy)
	case "tick":
		if d, passes, err := duration(s); passes || err != nil {
			start := w.Sim.State.Now
			return eventsText(w.Sim.Advance(d), start), err
		}
		tickFields(x, &w.Sim.State)
	case "plan":
		return w.plan(x)
	case "settle":
		return w.settle(x)
	case "pool":
		w.pool(x, name)
	case "node":
		err = w.node(x, name)
	case "gpu":
		err = w.gpu(x, name)
	case "quota":
		err = w.quota(x, name)
	case "forecast":
		err = w.forecast(x, name)
	case "pod":
		err = w.pod(x, name)
	}
	return "", cmp.Or(err, x.err())
}

// duration is the time that a tick lets pass, false for one that sets the time.
func duration(s statement) (time.Duration, bool, error) {
	if len(s.words) != 1 || s.words[0].isSet {
		return 0, false, nil
	}
	d, err := time.ParseDuration(s.words[0].key)
	if err != nil || d < 0 {
		return 0, false, fmt.Errorf("want a duration: %q", s.words[0].key)
	}
	return d, true, nil
}

// declared returns the thing with a name, to be changed: the one that exists, or a fresh one,
// which is added. With the word gone it removes the thing instead.
func declared[T any](x *fields, all *[]T, name string, is func(T) bool, fresh func() (T, error)) (t *T, gone bool, err error) {
	i := slices.IndexFunc(*all, is)
	switch gone = x.has("gone"); {
	case gone && i < 0:
		return nil, gone, fmt.Errorf("there is no %s", name)
	case gone:
		removed := (*all)[i]
		*all = slices.Delete(*all, i, i+1)
		return &removed, gone, nil
	case i < 0:
		added, err := fresh()
		if err != nil {
			return nil, gone, err
		}
		*all = append(*all, added)
		i = len(*all) - 1
	}
	return &(*all)[i], gone, nil
}

package scenario

import (
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

	sized map[string]bool // pools whose size was stated
	pods  map[string]int  // podIndex, nil until it is used
}

// Epoch is the start time of a scenario without a time of its own.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewWorld returns an empty world at Epoch with the default policy, but without soft
// taints: nearly every plan would have one.
func NewWorld() *World {
	policy := plan.DefaultPolicy()
	policy.SoftTaints = false
	return &World{Sim: &sim.World{State: plan.Snapshot{Now: Epoch}}, Policy: policy, sized: map[string]bool{}}
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

func (w *World) do(s statement) (string, error) {
	if s.verb != "pod" {
		w.pods = nil
	}
	switch s.verb {
	case "policy":
		return "", w.policy(s)
	case "tick":
		return w.tick(s)
	case "pool":
		return "", w.pool(s)
	case "node":
		return "", w.node(s)
	case "gpu":
		return "", w.gpu(s)
	case "quota":
		return "", w.quota(s)
	case "pod":
		return "", w.pod(s)
	case "forecast":
		return "", w.forecast(s)
	case "plan":
		return w.plan(s)
	case "settle":
		return w.settle(s)
	}
	return "", fmt.Errorf("there is no such verb; the verbs are policy, pool, node, gpu, quota, pod, forecast, tick, plan, settle")
}

// reader returns a reader of the fields and the first word, the name; where named
// is false, words are flags.
func (w *World) reader(s statement, named bool) (*reader, string, error) {
	switch {
	case named && len(s.words) == 0:
		return nil, "", fmt.Errorf("takes a name first")
	case named:
		return newReader(s, w.Sim.State.Now), s.words[0], nil
	}
	for _, word := range s.words {
		s.fields = append([]field{{key: word}}, s.fields...)
	}
	return newReader(s, w.Sim.State.Now), "", nil
}

func (w *World) policy(s statement) error {
	r, _, err := w.reader(s, false)
	if err != nil {
		return err
	}
	readPolicy(r, &w.Policy)
	return r.err()
}

// tick sets the time, or lets it pass.
func (w *World) tick(s statement) (string, error) {
	if len(s.words) == 1 && len(s.fields) == 0 {
		d, err := time.ParseDuration(s.words[0])
		if err != nil || d < 0 {
			return "", fmt.Errorf("want a duration: %q", s.words[0])
		}
		start := w.Sim.State.Now
		return eventsText(w.Sim.Advance(d), start), nil
	}
	r, _, err := w.reader(s, false)
	if err != nil {
		return "", err
	}
	readTick(r, &w.Sim.State)
	return "", r.err()
}

func (w *World) pool(s statement) error {
	r, name, err := w.reader(s, true)
	if err != nil {
		return err
	}
	state := &w.Sim.State
	i := slices.IndexFunc(state.Pools, func(p plan.Pool) bool { return p.Name == name })
	if i < 0 {
		state.Pools = append(state.Pools, plan.Pool{Name: name})
		i = len(state.Pools) - 1
	}
	p := &state.Pools[i]
	size, target := r.int("size", &p.Size), r.int("target", &p.Target)
	if size && !target {
		p.Target = p.Size
	}
	w.sized[name] = w.sized[name] || size || target
	readPool(r, p)
	return r.err()
}

func (w *World) node(s statement) error {
	r, name, err := w.reader(s, true)
	if err != nil {
		return err
	}
	state := &w.Sim.State
	i := slices.IndexFunc(state.Nodes, func(n plan.Node) bool { return n.Name == name })
	gone := false
	if r.flag("gone", &gone); gone {
		if i < 0 {
			return fmt.Errorf("there is no node %s", name)
		}
		w.count(state.Nodes[i].Pool, -1)
		state.Nodes = slices.Delete(state.Nodes, i, i+1)
		return r.err()
	}
	if i < 0 {
		n, err := w.newNode(r, name)
		if err != nil {
			return err
		}
		state.Nodes = append(state.Nodes, n)
		i = len(state.Nodes) - 1
		w.count(n.Pool, 1)
	}
	readNode(r, &state.Nodes[i])
	return r.err()
}

// newNode is a node of its pool's template, unless it is bare.
func (w *World) newNode(r *reader, name string) (plan.Node, error) {
	n := plan.Node{Name: name, Ready: true}
	bare := false
	r.string("pool", &n.Pool)
	r.flag("bare", &bare)
	if n.Pool == "" || bare {
		return n, nil
	}
	for _, p := range w.Sim.State.Pools {
		if p.Name != n.Pool {
			continue
		}
		t := p.Template
		n.Labels, n.Taints, n.CPUMilli, n.MemoryMi, n.Others = t.Labels, t.Taints, t.CPUMilli, t.MemoryMi, t.Others
		n.GPUs = slices.Clone(t.GPUs)
		for c := range n.GPUs {
			n.GPUs[c].Instances = slices.Clone(n.GPUs[c].Instances)
		}
		return n, nil
	}
	return n, fmt.Errorf("there is no pool %s above", n.Pool)
}

// count updates the size of a pool whose size was not stated.
func (w *World) count(pool string, d int) {
	for i := range w.Sim.State.Pools {
		if p := &w.Sim.State.Pools[i]; p.Name == pool && !w.sized[pool] {
			p.Size += d
			p.Target += d
		}
	}
}

package proc

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Group is a set of children that live and die together.
type Group struct {
	log *slog.Logger

	mu       sync.Mutex
	running  []*Process // in the order they were started
	stopping bool
	err      error
	failed   chan struct{}
}

// NewGroup returns an empty group.
func NewGroup(log *slog.Logger) *Group {
	return &Group{log: log, failed: make(chan struct{})}
}

// Start a child in the group.
func (g *Group) Start(spec Spec) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		return nil, fmt.Errorf("starting %s: everything is being stopped", spec.Name)
	}
	p, err := start(spec)
	if err != nil {
		return nil, err
	}
	g.log.Debug("process started", "name", spec.Name, "pid", p.PID())
	g.running = append(g.running, p)
	go g.watch(p)
	return p, nil
}

func (g *Group) watch(p *Process) {
	<-p.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, q := range g.running {
		if q == p {
			g.running = append(g.running[:i:i], g.running[i+1:]...)
			break
		}
	}
	if err := p.Err(); err != nil && g.err == nil && !g.stopping {
		g.err = err
		close(g.failed)
	}
}

// Failed is closed when the first child has ended without having been stopped. Err then says which one and
// why.
func (g *Group) Failed() <-chan struct{} { return g.failed }

// Err describes the first child that ended by itself; nil if there is none.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Running returns the running children in the order of their start. A child that has ended is left out, even
// if the group has not noticed it yet.
func (g *Group) Running() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.running), func(p *Process) bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
}

// Find returns a running child by its name, or nil.
func (g *Group) Find(name string) *Process {
	for _, p := range g.Running() {
		if p.Spec.Name == name {
			return p
		}
	}
	return nil
}

// Stop ends all children: SIGTERM, and SIGKILL after the grace period. Children named in last are ended after
// all others, in the given order, with lastGrace as their grace period. It returns when none is left.
func (g *Group) Stop(grace, lastGrace time.Duration, last ...string) {
	g.mu.Lock()
	g.stopping = true
	running := append([]*Process(nil), g.running...)
	g.mu.Unlock()

	later := map[string]bool{}
	for _, name := range last {
		later[name] = true
	}
	var wg sync.WaitGroup
	for _, p := range running {
		if !later[p.Spec.Name] {
			wg.Go(func() { p.Stop(grace) })
		}
	}
	wg.Wait()
	for _, name := range last {
		for _, p := range running {
			if p.Spec.Name == name {
				p.Stop(lastGrace)
			}
		}
	}
}

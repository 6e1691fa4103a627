package model

import "time"

// Load is how a server uses the slice that it runs on.
type Load struct {
	Ready       bool
	Busy        time.Duration // traffic time spent in steps since the start
	MemoryBytes int64         // the weights once loaded, and the reserved KV cache
}

// Load returns the load of a server; false for an unknown id. Busy includes the finished part of the current
// step.
func (g *Gateway) Load(id string) (Load, bool) {
	defer g.lock()()
	s := g.find(id)
	if s == nil {
		return Load{}, false
	}
	if s.ready > g.now {
		return Load{}, true
	}
	l := Load{Ready: true, Busy: s.busy}
	if s.stepping {
		l.Busy += min(g.now, s.until) - s.from
	}
	// vLLM reserves its whole cache at the start, so its memory does not depend on use.
	l.MemoryBytes = g.spec.Weights + int64(s.engine.kvTokens)*g.spec.KVPerToken
	return l, true
}

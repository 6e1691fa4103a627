package model

import "time"

// Load is what a server asks of the slice it runs on.
type Load struct {
	Ready       bool
	Busy        time.Duration // traffic time spent in steps since the start
	MemoryBytes int64         // weights once loaded, and the reserved KV cache
}

// Load of a server; false for an unknown id. Busy counts the step under way
// as far as it has come.
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
	// vLLM takes its whole cache at the start, so memory does not follow use.
	l.MemoryBytes = g.spec.Weights + int64(s.engine.kvTokens)*g.spec.KVPerToken
	return l, true
}

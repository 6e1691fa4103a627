package model

import "time"

// Load is what a server asks of the slice it runs on.
type Load struct {
	Ready       bool
	Busy        time.Duration // traffic time spent in steps since the start
	Running     int
	MemoryBytes int64   // weights once loaded, and the reserved KV cache
	KVUsage     float64 // 0 … 1
}

// Load of a server; false for an unknown id. Busy counts the step under way
// as far as it has come.
func (f *Fleet) Load(id string) (Load, bool) {
	s := f.find(id)
	if s == nil {
		return Load{}, false
	}
	if s.ready > f.now {
		return Load{}, true
	}
	l := Load{Ready: true, Busy: s.busy, Running: len(s.running), KVUsage: s.usage()}
	if s.stepping {
		l.Busy += min(f.now, s.until) - s.from
	}
	// vLLM takes its whole cache at the start, so memory does not follow use.
	l.MemoryBytes = f.spec.Weights + int64(s.engine.kvTokens)*f.spec.KVPerToken
	return l, true
}

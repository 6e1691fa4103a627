package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Health is the state of an agent. It is safe for concurrent use.
type Health struct {
	now func() time.Time
	// late is the age at which a loop without iteration is stuck; stale is the age at which a
	// report is old.
	late, stale time.Duration

	mu     sync.Mutex
	beaten time.Time
	wrote  time.Time // a report, zero for never
	err    error     // why the last tick failed, or the GPUs could not be read
}

// newHealth allows for three periods, plus the time-outs of one step.
func newHealth(c Config) *Health {
	three := 3 * c.Period.Duration
	step := c.CallTimeout.Duration + c.Exporter.Timeout.Duration + kubeletTimeout + 2*noteTries*requestTimeout
	h := &Health{now: time.Now, late: three + step, stale: three + step + c.PluginTimeout.Duration}
	h.beaten = h.now()
	return h
}

// beat records that the loop runs.
func (h *Health) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beaten = h.now()
}

// Waiting records that another agent has the machine's lock.
func (h *Health) Waiting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beaten, h.err = h.now(), errors.New("another agent runs on this machine")
}

// published records a report on the node; err is why it does not have the GPUs.
func (h *Health) published(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrote, h.err = h.now(), err
}

// ticked records the result of a tick.
func (h *Health) ticked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.err = err
	}
}

// Live returns why the agent must be restarted, nil if it need not be. A hanging driver is no
// reason: a new agent would hang as well.
func (h *Health) Live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := h.now().Sub(h.beaten); since > h.late {
		return fmt.Errorf("the loop has not run for %s, more than %s", since.Round(time.Second), h.late)
	}
	return nil
}

// Ready returns why the annotation on the node is not the state of the GPUs, nil if it is.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch since := h.now().Sub(h.wrote); {
	case h.wrote.IsZero():
		return errors.Join(errors.New("the GPUs have not been reported yet"), h.err)
	case h.err != nil:
		return h.err
	case since > h.stale:
		return fmt.Errorf("the GPUs were reported %s ago, more than %s", since.Round(time.Second), h.stale)
	}
	return nil
}

package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Health is how an agent is doing. It may be asked from any goroutine.
type Health struct {
	now func() time.Time
	// late is when a loop that has not turned is stuck; quiet when a report is old.
	late, quiet time.Duration

	mu     sync.Mutex
	beaten time.Time
	wrote  time.Time // a report, zero for never
	err    error     // why the last look failed, or the cards could not be read
}

// newHealth allows for three periods, and for all that one step may wait for.
func newHealth(c Config) *Health {
	three := 3 * c.Period.Duration
	step := c.CallTimeout.Duration + c.Exporter.Timeout.Duration + kubeletTimeout + 2*noteTries*requestTimeout
	h := &Health{now: time.Now, late: three + step, quiet: three + step + c.PluginTimeout.Duration}
	h.beaten = h.now()
	return h
}

// beat says that the loop turns.
func (h *Health) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beaten = h.now()
}

// Waiting says that another agent has to end first.
func (h *Health) Waiting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beaten, h.err = h.now(), errors.New("another agent runs on this machine")
}

// published says that what is on the node is so; err is why that is not the cards.
func (h *Health) published(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrote, h.err = h.now(), err
}

// ticked says how a look at the node ended.
func (h *Health) ticked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.err = err
	}
}

// Live says why the agent is to be started again, nil for nothing. A driver that
// hangs is no reason: a new agent would hang as well.
func (h *Health) Live() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := h.now().Sub(h.beaten); since > h.late {
		return fmt.Errorf("the loop has not turned for %s, at most %s are expected", since.Round(time.Second), h.late)
	}
	return nil
}

// Ready says why what stands on the node is not what the cards are, nil for nothing.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch since := h.now().Sub(h.wrote); {
	case h.wrote.IsZero():
		return errors.Join(errors.New("the cards have not been reported yet"), h.err)
	case h.err != nil:
		return h.err
	case since > h.quiet:
		return fmt.Errorf("the cards were reported %s ago, at most %s are expected", since.Round(time.Second), h.quiet)
	}
	return nil
}

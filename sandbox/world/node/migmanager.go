package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// manager is mig-manager: one change at a time, begun by a change of the
// label. What the label said in between is not remembered.
type manager struct {
	handled string // the label's value it acted on last
	wedged  bool   // a story's switch: the next change hangs

	phase  phase
	until  time.Time
	wanted map[int]wanted
	why    string // why the last change failed
}

type phase uint8

const (
	idle phase = iota
	pausing
	applying
)

// Wedge makes the next change hang with its clients paused, as when a client's
// pod does not end in time: the state stays pending until the label changes
// again (gpu-operator#2833).
func (m *Machine) Wedge(on bool) { m.manager.wedged = on }

// SetExporter says whether an exporter runs on the node. It holds handles of
// every instance, so mig-manager waits for its end and mig-parted could not
// work beside it (DCGM#276).
func (m *Machine) SetExporter(runs bool) { m.exporter = runs }

// Failure is why mig-manager's last change failed; empty if it did not.
func (m *Machine) Failure() string { return m.manager.why }

// StepManager lets mig-manager work: label is the node's present value of
// LabelConfig, config the mig-parted file as the node sees it (nil: none). It
// returns the labels it sets now, nil for none.
func (m *Machine) StepManager(label string, config []byte, now time.Time) map[string]string {
	g := &m.manager
	switch {
	case g.phase == idle && label != "" && label != g.handled:
		g.handled = label
		return m.beginChange(label, config, now)
	case g.phase == pausing && (now.Before(g.until) || m.exporter):
		return nil // its clients have not all ended
	case g.phase == pausing:
		if g.wedged {
			g.phase = idle // it gave up waiting and left everything as it was
			return nil
		}
		g.phase, g.until = applying, now.Add(m.spec.Delays.Apply)
	case g.phase == applying && !now.Before(g.until):
		return m.endChange(now)
	}
	return nil
}

// beginChange checks the configuration and pauses the clients.
func (m *Machine) beginChange(name string, config []byte, now time.Time) map[string]string {
	g := &m.manager
	g.why = ""
	var err error
	if g.wanted, err = parseConfig(config, name, len(m.cards), m.table); err != nil {
		g.why = err.Error()
		return map[string]string{LabelConfigState: StateFailed}
	}
	if m.matches() && m.plugin.running {
		return map[string]string{LabelConfigState: StateSuccess}
	}
	g.phase, g.until = pausing, now.Add(m.spec.Delays.Pause)
	m.plugin.stop()
	out := map[string]string{LabelConfigState: StatePending}
	for _, c := range clients {
		out[deployPrefix+c] = paused
	}
	return out
}

// endChange applies the configuration and lets the clients go on.
func (m *Machine) endChange(now time.Time) map[string]string {
	g := &m.manager
	g.phase = idle
	out := DeployLabels()
	out[LabelConfigState] = StateSuccess
	if err := m.apply(); err != nil {
		g.why = err.Error()
		out[LabelConfigState] = StateFailed
	}
	m.plugin.start(now, m.spec.Delays.Enumerate)
	return out
}

func (m *Machine) matches() bool {
	for i, w := range m.manager.wanted {
		if !m.cardMatches(i, w) {
			return false
		}
	}
	return true
}

// cardMatches says whether a card has the wanted instances, wherever they lie.
func (m *Machine) cardMatches(i int, w wanted) bool {
	c := m.cards[i]
	return c.MIG == w.mig && slices.Equal(mig.Counts(c.Layout()), normal(w.counts))
}

// normal brings counts into the order of mig.Counts.
func normal(counts []mig.Count) []mig.Count {
	out := slices.Clone(counts)
	slices.SortFunc(out, func(a, b mig.Count) int { return a.Profile.Compare(b.Profile) })
	return out
}

// apply goes card by card, as mig-parted does: cards done before one fails
// stay changed.
func (m *Machine) apply() error {
	for i := range m.cards {
		w, ok := m.manager.wanted[i]
		if !ok || m.cardMatches(i, w) {
			continue
		}
		if m.busy(i) {
			return fmt.Errorf("card %d: in use by another client", i)
		}
		if w.mig != m.cards[i].MIG {
			if err := m.setMode(i, w.mig); err != nil {
				return err
			}
		}
		if !w.mig {
			continue
		}
		layout, fits := m.table.Arrange(nil, w.counts)
		if !fits {
			return fmt.Errorf("card %d: these instances do not fit on a %s", i, m.table.Model())
		}
		if err := m.lay(&m.cards[i], layout); err != nil {
			return fmt.Errorf("card %d: %w", i, err)
		}
	}
	return nil
}

// setMode switches MIG on or off. That resets every card of the node, so none
// may be in use.
func (m *Machine) setMode(card int, on bool) error {
	for i := range m.cards {
		if m.busy(i) {
			return fmt.Errorf("card %d: changing the MIG mode resets all cards, and card %d is in use", card, i)
		}
	}
	m.cards[card].MIG, m.cards[card].Instances = on, nil
	return nil
}

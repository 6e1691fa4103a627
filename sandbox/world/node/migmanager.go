package node

import (
	"fmt"
	"maps"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// manager is mig-manager: it makes one change at a time, started by a change of the label. Label changes
// during it are ignored. Checked against the source of nvidia-mig-manager v0.13.1, v0.14.5 and v0.15.0 on
// 2026-11-23.
type manager struct {
	handled string // label value that was handled last
	// applied is true once it has applied a config since its start. From then on, a change that fails or is already
	// applied leaves its clients paused.
	applied bool
	wedged  bool // set by a story: the next change hangs

	phase  phase
	until  time.Time
	wanted map[int]wanted
	why    string // reason of the last failure
}

type phase uint8

const (
	idle phase = iota
	pausing
	applying
)

// Wedge makes the next change hang with its clients paused, as when a client's pod does not end in time. The
// state stays pending until the label changes again (gpu-operator#2833).
func (m *Machine) Wedge(on bool) { m.manager.wedged = on }

// SetExporter sets whether an exporter runs on the node. An exporter has every instance open, and mig-parted
// fails while it runs (DCGM#276), so mig-manager waits for its end.
func (m *Machine) SetExporter(runs bool) { m.exporter = runs }

// Failure is why mig-manager's last change failed; empty if it did not.
func (m *Machine) Failure() string { return m.manager.why }

// StepManager lets mig-manager work. label is the current value of contract.ConfigLabel, config the
// mig-parted file as the node sees it (nil if there is none). It returns the labels that mig-manager sets
// now; nil for none.
func (m *Machine) StepManager(label string, config []byte, now time.Time) map[string]string {
	g := &m.manager
	switch {
	case g.phase == idle && label != "" && label != g.handled:
		g.handled = label
		return m.beginChange(label, config, now)
	case g.phase == pausing && (now.Before(g.until) || m.exporter):
		return nil // not all its clients have ended
	case g.phase == pausing:
		if g.wedged {
			g.phase = idle // the change has timed out and changed nothing
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
	if g.wanted, err = parseConfig(config, name, len(m.gpus), m.table); err != nil {
		g.why = err.Error()
		return m.answer(contract.StateFailed, now)
	}
	if m.matches() {
		return m.answer(contract.StateSuccess, now)
	}
	g.phase, g.until = pausing, now.Add(m.spec.Delays.Pause)
	m.plugin.stop()
	out := map[string]string{contract.StateLabel: contract.StatePending}
	for _, c := range clients {
		out[deployPrefix+c] = paused
	}
	return out
}

// endChange applies the configuration and resumes the clients.
func (m *Machine) endChange(now time.Time) map[string]string {
	g := &m.manager
	g.phase = idle
	if err := m.apply(); err != nil {
		g.why = err.Error()
		return m.answer(contract.StateFailed, now)
	}
	out := m.resume(now)
	g.applied = true
	out[contract.StateLabel] = contract.StateSuccess
	return out
}

// answer returns the labels after a change that applied nothing.
func (m *Machine) answer(state string, now time.Time) map[string]string {
	out := map[string]string{}
	if !m.manager.applied {
		out = m.resume(now)
	}
	out[contract.StateLabel] = state
	return out
}

// resume resumes the paused clients and returns their labels.
func (m *Machine) resume(now time.Time) map[string]string {
	if !m.plugin.running {
		m.plugin.start(now, m.spec.Delays.Enumerate)
	}
	return deployLabels()
}

// Deploy starts the device plugin if the node's labels allow it and no change is under way. It is for labels
// that another program than mig-manager has set.
func (m *Machine) Deploy(labels map[string]string, now time.Time) {
	if m.manager.phase == idle && !m.plugin.running && labels[deployPrefix+"device-plugin"] == "true" {
		m.plugin.start(now, m.spec.Delays.Enumerate)
	}
}

func (m *Machine) matches() bool {
	for i, w := range m.manager.wanted {
		if !m.gpuMatches(i, w) {
			return false
		}
	}
	return true
}

// gpuMatches reports whether a GPU has the wanted instances at any placement. Names are compared as strings,
// and a name with amount 0 counts as a difference.
func (m *Machine) gpuMatches(i int, w wanted) bool {
	have := map[string]int{}
	for _, in := range m.gpus[i].Instances {
		have[in.Profile]++
	}
	return m.gpus[i].MIG == w.mig && maps.Equal(have, w.names)
}

// apply changes GPU by GPU, as mig-parted does. GPUs that were changed before one fails stay changed.
func (m *Machine) apply() error {
	for i := range m.gpus {
		w, ok := m.manager.wanted[i]
		if !ok || m.gpuMatches(i, w) {
			continue
		}
		if m.busy(i) {
			return fmt.Errorf("GPU %d: in use by another client", i)
		}
		if w.mig != m.gpus[i].MIG {
			if err := m.setMode(i, w.mig); err != nil {
				return err
			}
		}
		if !w.mig {
			continue
		}
		layout, fits := m.table.Arrange(nil, w.counts)
		if !fits {
			return fmt.Errorf("GPU %d: these instances do not fit on a %s", i, m.table.Model())
		}
		if err := m.lay(&m.gpus[i], layout); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return nil
}

// setMode switches MIG mode. This resets every GPU of the node, so none may be in use.
func (m *Machine) setMode(dev int, on bool) error {
	for i := range m.gpus {
		if m.busy(i) {
			return fmt.Errorf("GPU %d: changing the MIG mode resets all GPUs, and GPU %d is in use", dev, i)
		}
	}
	m.gpus[dev].MIG, m.gpus[dev].Instances = on, nil
	return nil
}

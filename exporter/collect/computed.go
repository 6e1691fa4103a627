package collect

import "github.com/gpuscale/gpuscale/exporter/collect/counters"

// computed returns what computes a DCGM_EXP_* series, by its counters number,
// or nil where nothing does.
func computed(id uint16) func(c *CompatOptions, m *Moment, page *pageFamily) {
	switch id {
	case counters.XIDErrorsCount:
		return addXIDWindow
	case counters.XIDErrorsTotal:
		return addXIDTotals
	case counters.ClockEventsCount:
		return addClockWindow
	case counters.ClockEventsTotal:
		return addClockTotals
	case counters.GPUHealthStatus:
		return addHealthStatus
	case counters.P2PStatus:
		return addPeerStatus
	}
	return nil
}

// computedFrom returns the DCGM fields that a DCGM_EXP_* series is made of. Its
// own number stands for what DCGM is asked beside fields: a source that cannot
// give it counts it as not supported.
func computedFrom(id uint16) []uint16 {
	switch id {
	case counters.XIDErrorsCount, counters.XIDErrorsTotal:
		return []uint16{fieldXID}
	case counters.ClockEventsCount, counters.ClockEventsTotal:
		return []uint16{fieldClockEvents, AskClockEvents}
	}
	return []uint16{id}
}

// eachGPU calls add for the labels of every series about a GPU. Under CompatExact a
// partitioned GPU has none, and its quantities stand on each of its instances, as in
// dcgm-exporter.
func (c *CompatOptions) eachGPU(m *Moment, add func(device *Entity, l *labelSet)) {
	for i := range m.subjects {
		s := &m.subjects[i]
		if s.entity.Kind == Instance && c.Mode == CompatOnce {
			continue
		}
		for _, l := range s.dcgm {
			add(m.subjects[s.device].entity, l)
		}
	}
}

// eachWholeGPU calls add once for every GPU, a partitioned one too.
func (c *CompatOptions) eachWholeGPU(m *Moment, add func(device *Entity, l *labelSet)) {
	for i := range m.subjects {
		s := &m.subjects[i]
		if s.entity.Kind != GPU || !c.Devices.Flexible() && !c.Devices.Major(s.entity.GPU) {
			continue
		}
		if s.split {
			add(s.entity, s.labels)
			continue
		}
		for _, l := range s.dcgm {
			add(s.entity, l)
		}
	}
}

// dcgm returns the DCGM labels and further ones, given as name and value.
func (l *labelSet) dcgm(further ...string) string {
	key := ""
	for _, text := range further {
		key += "\x00" + text
	}
	if text, ok := l.texts[key]; ok {
		return text
	}
	b := []byte(l.compat)
	for i := 0; i+1 < len(further); i += 2 {
		b = appendLabel(b, further[i], further[i+1])
	}
	text := string(b)
	l.texts[key] = text
	return text
}

// What a source is asked for beside DCGM fields, as numbers among the fields
// given to Watch. A source that cannot give one counts it as not supported.
const (
	AskClockEvents = counters.ClockEventsCount // Events.ClockSamples and ClockChanges
	AskHealth      = counters.GPUHealthStatus  // Entity.Health
	AskPeers       = counters.P2PStatus        // Entity.Peers
)

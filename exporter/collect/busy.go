package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

// overshoot is how far above 1 a ratio may be and still be a rounding of 1.
const overshoot = 0.01

func busyRatio() family {
	return family{desc: metric.GPUBusyRatio, collect: func(m *Moment, d *metric.Desc, add adder) {
		addBusy(m, d, GPU, add)
	}}
}

func instanceBusyRatio() family {
	return family{desc: metric.GPUInstanceBusyRatio, collect: func(m *Moment, d *metric.Desc, add adder) {
		addBusy(m, d, Instance, add)
	}}
}

func addBusy(m *Moment, d *metric.Desc, kind EntityKind, add adder) {
	for i := range m.subjects {
		if s := &m.subjects[i]; s.entity.Kind == kind && s.busy.known {
			add(s.text(d), s.busy.value, s.busy.taken)
		}
	}
}

// busyOf measures how busy an entity is. GR_ENGINE_ACTIVE is a mean over the
// interval and the same quantity on cards and instances; GPU_UTIL, the driver's
// short-window percentage, stands in on cards without profiling. On instances
// GPU_UTIL would be the card's and says nothing.
func busyOf(e *Entity) ratio {
	if v, ok := e.Value(fieldEngineActive); ok {
		return toRatio(v, 1)
	}
	if v, ok := e.Value(fieldGPUUtil); ok && e.Kind == GPU {
		return toRatio(v, 100)
	}
	return ratio{}
}

// toRatio divides by whole; a number outside 0 … whole is nobody's measurement.
func toRatio(v Value, whole float64) ratio {
	r := v.Number / whole
	if v.IsText || !(r >= 0 && r <= 1+overshoot) {
		return ratio{}
	}
	return ratio{value: min(r, 1), taken: v.Time, known: true}
}

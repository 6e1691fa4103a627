package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

// busySeconds is the integral of gpu_share_ratio: an entity has it where it has
// that.
func busySeconds() family {
	return family{desc: metric.GPUBusySecondsTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if _, ok := weight(s.entity); ok && s.busy.known && !s.split {
				add(s.text(d), s.tally.busy, s.busy.taken)
			}
		}
	}}
}

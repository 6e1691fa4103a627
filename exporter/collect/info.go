package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

func info() family {
	return family{desc: metric.GPUInfo, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			if s := &m.subjects[i]; s.entity.Kind == GPU {
				add(s.text(d), 1, m.taken)
			}
		}
	}}
}

func instanceInfo() family {
	return family{desc: metric.GPUInstanceInfo, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			if s := &m.subjects[i]; s.entity.Kind == Instance {
				add(s.text(d), 1, m.taken)
			}
		}
	}}
}

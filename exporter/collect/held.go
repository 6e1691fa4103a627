package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

// held has one series for each holder: on a shared card it is the only family
// that names the pods, but for what the driver tells of their processes.
func held() family {
	return family{desc: metric.GPUHeld, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.held {
			add(s.text(d), 1, m.taken)
		}
	}}
}

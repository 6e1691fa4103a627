package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

// held has one series for each holder: on a shared card it is the only family
// that names the pods.
func held() family {
	return family{desc: metric.GPUHeld, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			for j := range m.subjects[i].holders {
				add(m.subjects[i].holders[j].text(d), 1, m.taken)
			}
		}
	}}
}

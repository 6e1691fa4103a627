package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// sampleAge is there for every entity of the last Reading, however old.
func sampleAge() family {
	return family{desc: metric.GPUSampleAgeSeconds, aging: true, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			var newest time.Time
			for _, v := range s.entity.Values {
				if v.Time.After(newest) {
					newest = v.Time
				}
			}
			if !newest.IsZero() {
				add(s.text(d), 0, newest)
			}
		}
	}}
}

// attributionAge is absent until the kubelet has answered once.
func attributionAge() family {
	return family{desc: metric.GPUAttributionAgeSeconds, aging: true, collect: func(m *Moment, d *metric.Desc, add adder) {
		if !m.attribution.IsZero() {
			add(m.node.text(d), 0, m.attribution)
		}
	}}
}
